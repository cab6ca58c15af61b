// The obvious form of every layer in f64, and the numbers to try it on. The kernels are held against this file, and this file
// against the golden nets.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
typedef std::vector<double> D;
typedef std::vector<float> F;

inline uint64_t mix64(uint64_t x) {
    x += 0x9E3779B97F4A7C15ull;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}
// Entry i of stream k in [-1, 1), as the golden files have it.
inline double signed_unit(uint64_t k, uint64_t i) { return 2.0 * ((double)(mix64((k << 32) + i) >> 11) / 9007199254740992.0) - 1.0; }

struct Shape3 { int c, h, w; int plane() const { return h * w; } int size() const { return c * h * w; } };
struct ConvShape { Shape3 in, out; int kernel, stride, top, left; };

template <class E> void products(const ConvShape& s, int batch, E each) {
    for (int n = 0; n < batch; n++) for (int o = 0; o < s.out.c; o++) for (int y = 0; y < s.out.h; y++) for (int x = 0; x < s.out.w; x++)
        for (int c = 0; c < s.in.c; c++) for (int ky = 0; ky < s.kernel; ky++) for (int kx = 0; kx < s.kernel; kx++) {
            const int row = y * s.stride + ky - s.top, col = x * s.stride + kx - s.left;
            if (row < 0 || col < 0 || row >= s.in.h || col >= s.in.w) continue;
            each(((n * s.out.c + o) * s.out.h + y) * s.out.w + x, ((n * s.in.c + c) * s.in.h + row) * s.in.w + col, ((o * s.in.c + c) * s.kernel + ky) * s.kernel + kx);
        }
}
// With `rounded` the factors of every product are rounded to TF32 first.
static bool rounded = false;
inline D factors(const double* v, size_t n) {
    D out(v, v + n);
    if (rounded) for (double& d : out) {
        float f = (float)d;
        uint32_t u;
        memcpy(&u, &f, 4);
        u = (u + 0x1000u) & 0xffffe000u;
        memcpy(&f, &u, 4);
        d = f;
    }
    return out;
}
inline size_t weight_count(const ConvShape& s) { return (size_t)s.out.c * s.in.c * s.kernel * s.kernel; }
inline D conv(const ConvShape& s, int batch, const D& x_given, const double* w_given, const double* b) {
    const D x = factors(x_given.data(), x_given.size()), w = factors(w_given, weight_count(s));
    D y((size_t)batch * s.out.size());
    for (size_t i = 0; i < y.size(); i++) y[i] = b ? b[i / s.out.plane() % s.out.c] : 0;
    products(s, batch, [&](int o, int i, int k) { y[o] += x[i] * w[k]; });
    return y;
}
inline void conv_back(const ConvShape& s, int batch, const D& x_given, const double* w_given, const D& dy, D& dx, double* dw, double* db) {
    const D x = factors(x_given.data(), x_given.size()), w = factors(w_given, weight_count(s)), d = factors(dy.data(), dy.size());
    dx.assign(x.size(), 0);
    products(s, batch, [&](int o, int i, int k) { dx[i] += d[o] * w[k]; dw[k] += d[o] * x[i]; });
    if (db) for (size_t i = 0; i < dy.size(); i++) db[i / s.out.plane() % s.out.c] += dy[i];
}
// p: gamma, beta, tau
inline D frn(const Shape3& s, int batch, const D& x, const double* p) {
    D y(x.size());
    for (int i = 0; i < batch * s.c; i++) {
        const int c = i % s.c, n = s.plane();
        double square = 0;
        for (int j = 0; j < n; j++) square += x[i * n + j] * x[i * n + j];
        const double root = std::sqrt(square / n + 1e-6);
        for (int j = 0; j < n; j++) y[i * n + j] = std::max(p[c] * (x[i * n + j] / root) + p[s.c + c], p[2 * s.c + c]);
    }
    return y;
}
inline D frn_back(const Shape3& s, int batch, const D& x, const double* p, const D& dy, double* dp) {
    D dx(x.size());
    for (int i = 0; i < batch * s.c; i++) {
        const int c = i % s.c, n = s.plane();
        double square = 0, droot = 0;
        for (int j = 0; j < n; j++) square += x[i * n + j] * x[i * n + j];
        const double root = std::sqrt(square / n + 1e-6);
        D d(n);
        for (int j = 0; j < n; j++) {
            const double v = x[i * n + j], y = p[c] * (v / root) + p[s.c + c], tau = p[2 * s.c + c], g = dy[i * n + j];
            const double share = y > tau ? 1 : y < tau ? 0 : 0.5;
            dp[c] += share * g * v / root, dp[s.c + c] += share * g, dp[2 * s.c + c] += (1 - share) * g;
            droot -= p[c] * share * g * (v / root / root);
            d[j] = p[c] * share * g;
        }
        for (int j = 0; j < n; j++) dx[i * n + j] = d[j] / root + droot / root / n * x[i * n + j];
    }
    return dx;
}
inline D relu(const D& x) { D y(x); for (double& v : y) v = v > 0 ? v : 0; return y; }
inline D relu_back(const D& x, const D& dy) { D d(dy); for (size_t i = 0; i < d.size(); i++) if (!(x[i] > 0)) d[i] = 0; return d; }
template <class E> void windows(int planes, int ih, int iw, int oh, int ow, int kernel, int stride, E each) {
    for (int p = 0; p < planes; p++) for (int y = 0; y < oh; y++) for (int x = 0; x < ow; x++) {
        std::vector<int> w;
        for (int ky = 0; ky < kernel; ky++) for (int kx = 0; kx < kernel; kx++) w.push_back((p * ih + y * stride + ky) * iw + x * stride + kx);
        each((p * oh + y) * ow + x, w);
    }
}
inline int first_max(const D& x, const std::vector<int>& w) { int b = w[0]; for (int i : w) if (x[i] > x[b]) b = i; return b; }
// Mean cross-entropy, its gradient, correct predictions.
inline double cross_entropy_twin(const D& logits, int classes, const std::vector<int>& labels, D& grad, int& correct) {
    double loss = 0;
    const double n = labels.size();
    grad = logits; correct = 0;
    for (size_t i = 0; i < labels.size(); i++) {
        const double* z = &logits[i * classes];
        const double top = *std::max_element(z, z + classes);
        double sum = 0;
        for (int c = 0; c < classes; c++) sum += std::exp(z[c] - top);
        for (int c = 0; c < classes; c++) grad[i * classes + c] = (std::exp(z[c] - top) / sum - (c == labels[i])) / n;
        loss -= (z[labels[i]] - top - std::log(sum)) / n;
        correct += std::max_element(z, z + classes) - z == labels[i];
    }
    return loss;
}

// Numbers of a golden file after a key, in order.
static D golden_numbers(const std::string& text, const std::string& key) {
    D out;
    for (size_t at = text.find(key); at != std::string::npos; at = text.find(key, at)) at += key.size(), out.push_back(atof(text.c_str() + at));
    return out;
}
static std::string read_file(const std::string& path) {
    std::string text;
    if (FILE* f = fopen(path.c_str(), "rb")) {
        char buffer[65536];
        for (size_t n; (n = fread(buffer, 1, sizeof buffer, f)) > 0;) text.append(buffer, n);
        fclose(f);
    }
    return text;
}
