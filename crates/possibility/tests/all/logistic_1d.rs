//! The paper's one-dimensional logistic example against 40-digit numbers.

use crate::{CLOSED_FORM, NUMERICAL, assert_absolute, cases};
use golden::{Value, assert_close, assert_number, number};
use possibility::bound::ConsistencyBounds;
use possibility::curve::{LogSigmoid, Parabola};
use possibility::line::Line;
use possibility::posterior::LinePosterior;
use possibility::tight::TightGaussians;
use possibility::{Mode, Possibility};

#[test]
fn golden_logistic_1d() {
    for case in cases("logistic_1d") {
        let name = case["name"].as_str().unwrap_or("unnamed");
        let loss = LogSigmoid::new(number(&case["y"])).unwrap();
        let [mean, precision] = ["prior_mean", "prior_precision"].map(|key| number(&case[key]));
        let prior = Parabola::new(mean, precision).unwrap();
        let posterior = LinePosterior::new(loss, prior).unwrap();
        let function = posterior.function();
        let Mode::Point(mode) = *function.mode() else {
            panic!("{name}: one mode expected")
        };
        assert_absolute(&format!("{name}: mode"), mode, &case["mode"], CLOSED_FORM);
        let check = |what: &str, got: f64, want: &Value, tolerance: f64| {
            assert_number(&format!("{name}: {what}"), got, want, tolerance);
        };
        let precision = function.precision().unwrap();
        check("curvature", precision, &case["curvature_at_mode"], 1e-11);
        let log_z = posterior.log_consistency();
        check("log Z", log_z, &case["log_z_max"], CLOSED_FORM);
        for point in case["posterior"].as_array().unwrap() {
            let f = number(&point["f"]);
            let what = format!("posterior at {f}");
            let (log, possibility) = (function.log_possibility(&f), function.possibility(&f));
            check(&what, log, &point["log_possibility"], 1e-11);
            check(&what, possibility, &point["possibility"], 1e-11);
        }
        for cut in case["alpha_cuts"].as_array().unwrap() {
            let alpha = number(&cut["alpha"]);
            let set = function.alpha_cut(alpha).unwrap();
            let hull = set.hull().unwrap();
            assert_eq!(set.parts().len(), 1);
            let what = format!("{name}: cut at {alpha}");
            let want = [number(&cut["low"]), number(&cut["high"])];
            assert_close(&what, &[hull.lower(), hull.upper()], &want, NUMERICAL);
        }
        let tight = TightGaussians::around(function).unwrap();
        let want = &case["tightest_upper_at_mode"]["precision"];
        check("upper precision", tight.upper_precision(), want, 1e-10);
        let want = &case["widest_lower_at_mode"]["precision"];
        check("lower precision", tight.lower_precision(), want, 1e-10);
        let sigma = precision.sqrt().recip();
        check("laplace", sigma, &case["laplace"]["sigma"], 1e-11);
        for candidate in case["candidates"].as_array().unwrap() {
            let (mu, sigma) = (number(&candidate["mu"]), number(&candidate["sigma"]));
            let g = Line::new(Parabola::new(mu, 1.0 / (sigma * sigma)).unwrap()).unwrap();
            for (field, got) in [
                ("lower_cbo", posterior.lower_cbo(&g)),
                ("upper_cbo", posterior.upper_cbo(&g)),
                ("dmax_candidate_to_posterior", posterior.divergence_from(&g)),
                ("dmax_posterior_to_candidate", posterior.divergence_to(&g)),
            ] {
                let what = format!("{name}: mu {mu} sigma {sigma}: {field}");
                assert_absolute(&what, got.unwrap(), &candidate[field], NUMERICAL);
            }
        }
    }
}
