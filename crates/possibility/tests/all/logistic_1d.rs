//! The paper's one-dimensional logistic example against 40-digit numbers.

use crate::{CLOSED_FORM, NUMERICAL, assert_absolute, cases};
use golden::{assert_close, assert_number, number};
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
        let posterior = LinePosterior::new(
            LogSigmoid::new(number(&case["y"])).unwrap(),
            Parabola::new(
                number(&case["prior_mean"]),
                number(&case["prior_precision"]),
            )
            .unwrap(),
        )
        .unwrap();
        let function = posterior.function();
        let Mode::Point(mode) = *function.mode() else {
            panic!("{name}: one mode expected")
        };
        assert_absolute(&format!("{name}: mode"), mode, &case["mode"], CLOSED_FORM);
        let precision = function.precision().unwrap();
        assert_number(
            &format!("{name}: curvature"),
            precision,
            &case["curvature_at_mode"],
            1e-11,
        );
        let log_z = posterior.log_consistency();
        assert_number(
            &format!("{name}: log Z"),
            log_z,
            &case["log_z_max"],
            CLOSED_FORM,
        );
        for point in case["posterior"].as_array().unwrap() {
            let f = number(&point["f"]);
            let what = format!("{name}: posterior at {f}");
            assert_number(
                &what,
                function.log_possibility(&f),
                &point["log_possibility"],
                1e-11,
            );
            assert_number(
                &what,
                function.possibility(&f),
                &point["possibility"],
                1e-11,
            );
        }
        for cut in case["alpha_cuts"].as_array().unwrap() {
            let alpha = number(&cut["alpha"]);
            let set = function.alpha_cut(alpha).unwrap();
            let hull = set.hull().unwrap();
            assert_eq!(set.parts().len(), 1);
            assert_close(
                &format!("{name}: cut at {alpha}"),
                &[hull.lower(), hull.upper()],
                &[number(&cut["low"]), number(&cut["high"])],
                NUMERICAL,
            );
        }
        let tight = TightGaussians::around(function).unwrap();
        for (what, got, want) in [
            (
                "upper precision",
                tight.upper_precision(),
                &case["tightest_upper_at_mode"]["precision"],
            ),
            (
                "lower precision",
                tight.lower_precision(),
                &case["widest_lower_at_mode"]["precision"],
            ),
        ] {
            assert_number(&format!("{name}: {what}"), got, want, 1e-10);
        }
        assert_number(
            &format!("{name}: laplace"),
            precision.sqrt().recip(),
            &case["laplace"]["sigma"],
            1e-11,
        );
        for candidate in case["candidates"].as_array().unwrap() {
            let (mu, sigma) = (number(&candidate["mu"]), number(&candidate["sigma"]));
            let g = Line::new(Parabola::new(mu, 1.0 / (sigma * sigma)).unwrap()).unwrap();
            let what = |field: &str| format!("{name}: mu {mu} sigma {sigma}: {field}");
            let lower = posterior.lower_cbo(&g).unwrap();
            assert_absolute(
                &what("lower_cbo"),
                lower,
                &candidate["lower_cbo"],
                NUMERICAL,
            );
            let upper = posterior.upper_cbo(&g).unwrap();
            assert_absolute(
                &what("upper_cbo"),
                upper,
                &candidate["upper_cbo"],
                NUMERICAL,
            );
            let from = posterior.divergence_from(&g).unwrap();
            let want = &candidate["dmax_candidate_to_posterior"];
            assert_absolute(&what("D_max to posterior"), from, want, NUMERICAL);
            let to = posterior.divergence_to(&g).unwrap();
            let want = &candidate["dmax_posterior_to_candidate"];
            assert_absolute(&what("D_max from posterior"), to, want, NUMERICAL);
        }
    }
}
