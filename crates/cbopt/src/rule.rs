//! Any of the rules, chosen at run time: its hyper-parameters as a config file holds them, the
//! rule, and the constants of a step.

use serde::{Deserialize, Serialize, Serializer};

use crate::baseline::adamw::{AdamW, AdamWConfig, AdamWConstants};
use crate::baseline::ivon::{Ivon, IvonConfig, IvonConstants};
use crate::baseline::sgd::{Sgd, SgdConfig, SgdConstants};
use crate::cbo::fixed::Fixed;
use crate::cbo::lower::Lower;
use crate::cbo::upper::Upper;
use crate::cbo::{
    Cbo, CboConstants, Gap, LowerAdaptCboConfig, UpperAdaptCboConfig, UpperCboConfig,
};
use crate::error::{Error, Result};
use crate::executor::{Executor, StepReport};
use crate::noise::NoiseKey;
use crate::state::State;
use crate::update::{Coordinate, SQUARE_LIMIT, Update, sealed};

/// Hyper-parameters of one of the six rules, as a table whose key `rule` holds the identifier. Keys
/// that are left out have their defaults; keys of another rule are refused.
///
/// ```
/// use cbopt::{Rule, RuleConfig, Update};
/// for id in RuleConfig::IDS {
///     let mut config = RuleConfig::by_id(id).expect("an identifier of the list");
///     config.fill_examples(50_000);
///     assert_eq!(config.build()?.id(), id);
/// }
/// assert_eq!(RuleConfig::by_id("adam"), None);
/// # Ok::<(), cbopt::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule")]
#[non_exhaustive]
pub enum RuleConfig {
    /// `ucbopt`.
    #[serde(rename = "ucbopt")]
    UpperCbo(UpperCboConfig),
    /// `ucbopt-adapt`.
    #[serde(rename = "ucbopt-adapt")]
    UpperAdaptCbo(UpperAdaptCboConfig),
    /// `lcbopt-adapt`.
    #[serde(rename = "lcbopt-adapt")]
    LowerAdaptCbo(LowerAdaptCboConfig),
    /// `sgd`.
    #[serde(rename = "sgd")]
    Sgd(SgdConfig),
    /// `adamw`.
    #[serde(rename = "adamw")]
    AdamW(AdamWConfig),
    /// `ivon`.
    #[serde(rename = "ivon")]
    Ivon(IvonConfig),
}

/// One of the six rules.
///
/// ```
/// use cbopt::{AdamWConfig, Rule, Update, UpperCboConfig};
/// let rules: Vec<Rule> =
///     vec![UpperCboConfig::default().build()?.into(), AdamWConfig::default().build()?.into()];
/// assert_eq!(rules[0].id(), "ucbopt");
/// assert_eq!(rules[1].state(10).buffer_bytes(), 80);
/// # Ok::<(), cbopt::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Rule {
    /// `ucbopt`.
    UpperCbo(Cbo<Fixed>),
    /// `ucbopt-adapt`.
    UpperAdaptCbo(Cbo<Upper>),
    /// `lcbopt-adapt`.
    LowerAdaptCbo(Cbo<Lower>),
    /// `sgd`.
    Sgd(Sgd),
    /// `adamw`.
    AdamW(AdamW),
    /// `ivon`.
    Ivon(Ivon),
}

/// The same expression for every variant of [`Rule`] or [`RuleConfig`].
macro_rules! each {
    ($kind:ident, $value:expr, $rule:ident => $body:expr) => {
        match $value {
            $kind::UpperCbo($rule) => $body,
            $kind::UpperAdaptCbo($rule) => $body,
            $kind::LowerAdaptCbo($rule) => $body,
            $kind::Sgd($rule) => $body,
            $kind::AdamW($rule) => $body,
            $kind::Ivon($rule) => $body,
        }
    };
}

impl RuleConfig {
    /// The identifiers.
    pub const IDS: [&'static str; 6] = [
        Fixed::ID,
        Upper::ID,
        Lower::ID,
        Sgd::ID,
        AdamW::ID,
        Ivon::ID,
    ];

    /// The rule of this identifier with its defaults.
    pub fn by_id(id: &str) -> Option<Self> {
        let defaults = [
            Self::UpperCbo(Default::default()),
            Self::UpperAdaptCbo(Default::default()),
            Self::LowerAdaptCbo(Default::default()),
            Self::Sgd(Default::default()),
            Self::AdamW(Default::default()),
            Self::Ivon(Default::default()),
        ];
        defaults.into_iter().find(|config| config.id() == id)
    }

    /// The identifier.
    pub fn id(&self) -> &'static str {
        match self {
            Self::UpperCbo(_) => Fixed::ID,
            Self::UpperAdaptCbo(_) => Upper::ID,
            Self::LowerAdaptCbo(_) => Lower::ID,
            Self::Sgd(_) => Sgd::ID,
            Self::AdamW(_) => AdamW::ID,
            Self::Ivon(_) => Ivon::ID,
        }
    }

    /// Fills in what depends on the number of training examples and was not given: the effective
    /// sample size of `ivon`.
    pub fn fill_examples(&mut self, examples: usize) {
        if let Self::Ivon(config) = self {
            config.ess.get_or_insert(examples as f64);
        }
    }

    /// Sets the seed of a rule that draws noise; it is no part of a config file.
    pub fn set_seed(&mut self, seed: u64) {
        if let Self::Ivon(config) = self {
            config.seed = seed;
        }
    }

    /// Whether the state of the rule is part of what it learned, so that predictions need it.
    pub fn predicts_with_state(&self) -> bool {
        matches!(self, Self::Ivon(_))
    }

    /// The hyper-parameters alone, to be written without the identifier.
    pub fn parameters(&self) -> impl Serialize {
        Untagged(*self)
    }

    /// The rule.
    ///
    /// # Errors
    /// [`Error::OutOfRange`] for the first field outside its range, [`Error::Missing`] for one that
    /// has to be given or filled.
    pub fn build(&self) -> Result<Rule> {
        Ok(each!(RuleConfig, self, config => config.build()?.into()))
    }
}

/// A config without its tag.
struct Untagged(RuleConfig);

impl Serialize for Untagged {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        each!(RuleConfig, &self.0, config => config.serialize(serializer))
    }
}

impl Rule {
    /// Whether the state of the rule is part of what it learned, so that predictions need it.
    pub fn predicts_with_state(&self) -> bool {
        matches!(self, Self::Ivon(_))
    }

    /// Writes one sample of the weights that were learned to `out`; its noise is that of `key`.
    ///
    /// # Errors
    /// [`Error::WrongRule`] unless the rule [predicts with its state](Rule::predicts_with_state)
    /// and the state is one of it, [`Error::Length`] for slices of another length.
    pub fn sample(
        &self,
        executor: &Executor,
        params: &[f32],
        state: &State,
        key: NoiseKey,
        out: &mut [f32],
    ) -> Result<()> {
        match self {
            Self::Ivon(rule) => rule.sample(executor, params, state, key, out),
            other => Err(Error::WrongRule {
                found: other.id().into(),
                expected: Ivon::ID,
            }),
        }
    }
}

impl Update for Rule {
    fn id(&self) -> &'static str {
        each!(Rule, self, rule => rule.id())
    }

    fn step_scalar(&self, lr: f64, step: u64, gradient: f64, second: f64, x: &mut Coordinate) {
        each!(Rule, self, rule => rule.step_scalar(lr, step, gradient, second, x));
    }

    fn constants(&self, lr: f64, step: u64) -> Constants {
        each!(Rule, self, rule => rule.constants(lr, step))
    }
}

impl sealed::Started for Rule {
    fn start(&self) -> sealed::Start {
        each!(Rule, self, rule => rule.start())
    }
}

macro_rules! from_rule {
    ($($variant:ident($rule:ty)),*) => {
        $(impl From<$rule> for Rule {
            fn from(rule: $rule) -> Self {
                Self::$variant(rule)
            }
        })*
    };
}

from_rule!(
    UpperCbo(Cbo<Fixed>),
    UpperAdaptCbo(Cbo<Upper>),
    LowerAdaptCbo(Cbo<Lower>),
    Sgd(Sgd),
    AdamW(AdamW),
    Ivon(Ivon)
);

/// Everything a step needs that depends on the rule, the learning rate and the number of the step,
/// as plain data; made by [`Update::constants`]. Every step goes through it, on whatever device.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Constants {
    /// Of the three CBOpt rules.
    Cbo(CboConstants),
    /// Of `sgd`.
    Sgd(SgdConstants),
    /// Of `adamw`.
    AdamW(AdamWConstants),
    /// Of `ivon`.
    Ivon(IvonConstants),
}

impl Constants {
    /// Largest gradient magnitude the step accepts.
    pub fn limit(&self) -> f32 {
        match self {
            Self::Sgd(_) => f32::MAX,
            Self::Cbo(_) | Self::AdamW(_) | Self::Ivon(_) => SQUARE_LIMIT,
        }
    }

    /// Makes a step whose arguments are known to be good, and counts it in `state`.
    pub(crate) fn advance(
        &self,
        executor: &Executor,
        params: &mut [f32],
        grads: &[f32],
        state: &mut State,
    ) -> StepReport {
        match self {
            Self::Cbo(constants) => constants.advance(executor, params, grads, state),
            Self::Sgd(constants) => constants.advance(executor, params, grads, state),
            Self::AdamW(constants) => constants.advance(executor, params, grads, state),
            Self::Ivon(constants) => constants.advance(executor, params, grads, state),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_is_the_identifier() {
        for id in RuleConfig::IDS {
            let config: RuleConfig =
                serde_json::from_str(&format!("{{\"rule\":\"{id}\"}}")).unwrap();
            assert_eq!(Some(config), RuleConfig::by_id(id));
            let written = serde_json::to_value(config).unwrap();
            assert_eq!(written["rule"], id);
            assert_eq!(
                serde_json::from_value::<RuleConfig>(written).unwrap(),
                config
            );
        }
    }

    #[test]
    fn unknown_keys_and_keys_of_other_rules_are_refused_by_name() {
        for (text, part) in [
            ("'rule':'ucbopt','beta4':1.0", "unknown field `beta4`"),
            ("'rule':'ucbopt','beta3':1.1", "unknown field `beta3`"),
            ("'rule':'ucbopt','gamma':0.5", "unknown field `gamma`"),
            (
                "'rule':'lcbopt-adapt','vartheta':0.1",
                "unknown field `vartheta`",
            ),
            ("'rule':'sgd','beta1':0.1", "unknown field `beta1`"),
            ("'rule':'adamw','momentum':0.1", "unknown field `momentum`"),
            ("'rule':'ivon','seed':1", "unknown field `seed`"),
            ("'rule':'adam'", "unknown variant `adam`"),
            ("'beta1':0.5", "missing field `rule`"),
            (
                "'rule':'ucbopt','eps_policy':'clip'",
                "unknown variant `clip`, expected one of `none`, `add`",
            ),
        ] {
            let text = format!("{{{}}}", text.replace('\'', "\""));
            let error = serde_json::from_str::<RuleConfig>(&text).unwrap_err();
            assert!(error.to_string().contains(part), "{text}: {error}");
        }
    }

    #[test]
    fn missing_sample_sizes_are_filled_once() {
        let mut config = RuleConfig::by_id("ivon").unwrap();
        assert_eq!(config.build(), Err(Error::Missing { field: "ess" }));
        config.fill_examples(500);
        config.fill_examples(7);
        let RuleConfig::Ivon(ivon) = config else {
            panic!("the rule is ivon")
        };
        assert_eq!(ivon.ess, Some(500.0));
        assert!(config.build().is_ok());
    }
}
