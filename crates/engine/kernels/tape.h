// Nets the obvious way in f64: every step of forward leaves behind how its gradient goes back.
#pragma once
#include <functional>
#include <memory>
#include "twin.h"

struct Tape {
    struct Tensor { D v, d; Shape3 s; };  // values of all images, their gradient
    typedef std::shared_ptr<Tensor> V;
    const D& p;
    D grad;
    int n, at = 0;  // images; the next parameter
    std::vector<std::function<void()>> back;
    Tape(const D& parameters, int images) : p(parameters), grad(parameters.size(), 0), n(images) {}

    static V make(D v, Shape3 s) {
        V r = std::make_shared<Tensor>();
        r->d.assign(v.size(), 0), r->v = std::move(v), r->s = s;
        return r;
    }
    static void add_to(D& a, const D& b) { for (size_t i = 0; i < a.size(); i++) a[i] += b[i]; }
    V normal(V x) {
        const int here = at;
        at += 3 * x->s.c;
        V y = make(frn(x->s, n, x->v, &p[here]), x->s);
        back.push_back([=] { add_to(x->d, frn_back(x->s, n, x->v, &p[here], y->d, &grad[here])); });
        return y;
    }
    V convolution(V x, ConvShape s, bool bias) {
        const int here = at, end = here + weight_count(s);
        at = end + (bias ? s.out.c : 0);
        V y = make(conv(s, n, x->v, &p[here], bias ? &p[end] : nullptr), s.out);
        back.push_back([=] {
            D d;
            conv_back(s, n, x->v, &p[here], y->d, d, &grad[here], bias ? &grad[end] : nullptr);
            add_to(x->d, d);
        });
        return y;
    }
    V convolution(V x, int out, int kernel, bool bias = false) {
        return convolution(x, {x->s, {out, x->s.h, x->s.w}, kernel, 1, kernel / 2, kernel / 2}, bias);
    }
    // Channels of a before those of b.
    V join(V a, V b) {
        const int na = a->s.size(), nb = b->s.size();
        V y = make(D((size_t)n * (na + nb)), {a->s.c + b->s.c, a->s.h, a->s.w});
        auto each = [=](auto f) { for (int i = 0; i < n * (na + nb); i++) { const int k = i / (na + nb), j = i % (na + nb); f(i, j < na, j < na ? k * na + j : k * nb + j - na); } };
        each([&](int i, bool first, int j) { y->v[i] = first ? a->v[j] : b->v[j]; });
        back.push_back([=] { each([&](int i, bool first, int j) { (first ? a->d[j] : b->d[j]) += y->d[i]; }); });
        return y;
    }
    V add(V a, V b) {
        V y = make(a->v, a->s);
        add_to(y->v, b->v);
        back.push_back([=] { add_to(a->d, y->d), add_to(b->d, y->d); });
        return y;
    }
    V mean_pool(V x, int k) {
        const Shape3 s{x->s.c, x->s.h / k, x->s.w / k};
        V y = make(D((size_t)n * s.size(), 0), s);
        auto each = [=](auto f) { windows(n * s.c, x->s.h, x->s.w, s.h, s.w, k, k, f); };
        each([&](int o, const std::vector<int>& w) { for (int i : w) y->v[o] += x->v[i] / w.size(); });
        back.push_back([=] { each([&](int o, const std::vector<int>& w) { for (int i : w) x->d[i] += y->d[o] / w.size(); }); });
        return y;
    }
    V rectify(V x) {
        V y = make(relu(x->v), x->s);
        back.push_back([=] { add_to(x->d, relu_back(x->v, y->d)); });
        return y;
    }
    // factor(image, entry)
    template <class F> V scale(V x, F factor) {
        D f(x->v.size());
        const int size = x->s.size();
        for (size_t i = 0; i < f.size(); i++) f[i] = factor(i / size, i % size);
        V y = make(x->v, x->s);
        for (size_t i = 0; i < f.size(); i++) y->v[i] *= f[i];
        back.push_back([=] { for (size_t i = 0; i < f.size(); i++) x->d[i] += y->d[i] * f[i]; });
        return y;
    }
    // Mean cross-entropy of a dense layer's output, and all gradients. The dense layer's factors are not rounded.
    double finish(V features, int classes, const std::vector<int>& labels, D& logits, int& correct) {
        const bool products_rounded = rounded;
        rounded = false;
        V out = convolution(features, classes, 1, true);
        const double loss = cross_entropy_twin(out->v, classes, labels, out->d, correct);
        logits = out->v;
        back.back()(), back.pop_back();
        rounded = products_rounded;
        for (; !back.empty(); back.pop_back()) back.back()();
        return loss;
    }
};
