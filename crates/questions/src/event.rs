//! The small language of events: `x > 0.5`, `0.2 <= p <= 0.4`, `x in [1, 2) or x = 0`,
//! `not (x in {1, 2})`, `p[red] < 0.3`, `2*height - weight > 1`.
//!
//! ```text
//! event      = term { "or" term }
//! term       = factor { "and" factor }
//! factor     = "not" factor | "(" event ")" | comparison
//! comparison = linear { ("<" | "<=" | ">" | ">=" | "=" | "!=") linear }   a chain reads like in mathematics
//!            | linear [ "not" ] "in" set { ("or" | "∪") set }
//! set        = ("[" | "(") number "," number ("]" | ")") | "{" number { "," number } "}"
//! linear     = [ "-" ] product { ("+" | "-") product }
//! product    = number [ [ "*" ] variable ] | variable [ ("*" | "/") number ]
//! variable   = name | name "[" label "]" | quoted text
//! ```

use possibility::set::{Interval, RealSet};

use crate::user_error::{UserError, unknown};

/// A statement about the coordinates of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The linear form lies in the set.
    Atom(Atom),
    /// The event does not happen.
    Not(Box<Event>),
    /// Both happen.
    And(Box<Event>, Box<Event>),
    /// At least one happens.
    Or(Box<Event>, Box<Event>),
}

/// `Σ coefficient · variable ∈ set`; no coefficient is zero, no variable comes twice, and a single
/// variable has the coefficient 1.
#[derive(Debug, Clone, PartialEq)]
pub struct Atom {
    /// Pairs of variable index and coefficient, by increasing index.
    pub linear: Vec<(usize, f64)>,
    /// Where the linear form must lie.
    pub set: RealSet,
}

impl Atom {
    /// Whether it is about the first variables alone, so many of them.
    pub fn is_within(&self, count: usize) -> bool {
        self.linear.iter().all(|&(index, _)| index < count)
    }
}

/// Which names an event may use.
#[derive(Debug, Clone)]
pub struct Variables {
    /// Every accepted bare name and the coordinate it stands for.
    names: Vec<(String, usize)>,
    /// Names that take a label in brackets, as in `p[red]`, and the coordinate of the first label.
    indexed: Vec<(String, usize)>,
    /// The labels, in coordinate order.
    labels: Vec<String>,
}

impl Variables {
    /// One number, called by any of these names.
    pub fn scalar(names: &[&str]) -> Self {
        Self {
            names: names.iter().map(|name| ((*name).to_owned(), 0)).collect(),
            indexed: Vec::new(),
            labels: Vec::new(),
        }
    }

    /// A vector whose coordinates are called by their labels, or as `name[label]`.
    pub fn vector(indexed: &[&str], labels: &[String]) -> Self {
        Self {
            names: labels.iter().cloned().zip(0..).collect(),
            indexed: indexed.iter().map(|name| ((*name).to_owned(), 0)).collect(),
            labels: labels.to_vec(),
        }
    }

    /// Adds a bare name, unless a coordinate is already called so.
    pub fn with_name(mut self, name: &str, coordinate: usize) -> Self {
        if self.names.iter().all(|(known, _)| known != name) {
            self.names.push((name.to_owned(), coordinate));
        }
        self
    }

    /// Adds a name that takes a label in brackets; the first label is coordinate `first`.
    pub fn with_indexed(mut self, name: &str, first: usize) -> Self {
        self.indexed.push((name.to_owned(), first));
        self
    }

    /// The levels of a column: `b` where a coordinate is called `column[b]`.
    fn levels<'a>(&'a self, column: &'a str) -> impl Iterator<Item = &'a str> {
        let level = move |name: &'a str| {
            let rest = name.strip_prefix(column)?;
            rest.strip_prefix('[')?.strip_suffix(']')
        };
        self.names.iter().filter_map(move |(name, _)| level(name))
    }

    fn has_levels(&self, column: &str) -> bool {
        self.levels(column).next().is_some()
    }

    fn find(&self, name: &str) -> Result<usize, String> {
        if let Some(&(_, coordinate)) = self.names.iter().find(|(known, _)| known == name) {
            return Ok(coordinate);
        }
        let known = self.names.iter().map(|(known, _)| known.as_str());
        let mut message = unknown("variable", name, known.clone());
        let is_simple = |name: &str| {
            let column = name.split_once('[').map_or(name, |(column, _)| column);
            is_plain(name) || (is_plain(column) && self.has_levels(column))
        };
        if known.into_iter().any(|name| !is_simple(name)) {
            message.push_str("; put a name that is not a plain word in quotes");
        }
        Err(message)
    }
}

impl Event {
    /// Reads an event.
    ///
    /// # Errors
    /// A syntax error or an unknown name; the message shows the text with a caret under the place.
    pub fn parse(text: &str, variables: &Variables) -> Result<Self, UserError> {
        let parse = || {
            let tokens = tokenize(text)?;
            let mut parser = Parser {
                tokens,
                position: 0,
                variables,
                depth: 0,
            };
            let event = parser.event()?;
            match parser.peek() {
                Token::End => Ok(event),
                _ => Err(parser.expected("\"and\", \"or\" or the end of the event")),
            }
        };
        parse().map_err(|problem: Problem| {
            let column = text[..problem.at].chars().count();
            UserError::new(format!(
                "event \"{text}\": {}\n  {}\n  {}^",
                problem.message,
                text.replace(['\t', '\n', '\r'], " "),
                " ".repeat(column)
            ))
        })
    }

    /// The coordinates the event speaks of, in increasing order.
    pub fn coordinates(&self) -> Vec<usize> {
        let mut found = Vec::new();
        self.visit_atoms(&mut |atom| found.extend(atom.linear.iter().map(|&(i, _)| i)));
        found.sort_unstable();
        found.dedup();
        found
    }

    fn visit_atoms(&self, visit: &mut impl FnMut(&Atom)) {
        match self {
            Self::Atom(atom) => visit(atom),
            Self::Not(event) => event.visit_atoms(visit),
            Self::And(a, b) | Self::Or(a, b) => {
                a.visit_atoms(visit);
                b.visit_atoms(visit);
            }
        }
    }

    /// The set of values of the only coordinate in the event; `None` if it speaks of several.
    pub fn as_set(&self) -> Option<RealSet> {
        (self.coordinates().len() <= 1).then(|| self.fold())
    }

    /// The only coordinate in the event and the set of its values; `None` for several.
    pub fn place(&self) -> Option<(usize, RealSet)> {
        match self.coordinates()[..] {
            [index] => Some((index, self.fold())),
            _ => None,
        }
    }

    fn fold(&self) -> RealSet {
        match self {
            Self::Atom(atom) => atom.set.clone(),
            Self::Not(event) => event.fold().complement(),
            Self::And(a, b) => a.fold().intersection(&b.fold()),
            Self::Or(a, b) => a.fold().union(&b.fold()),
        }
    }

    /// The event, or its opposite if `negated`, as a conjunction of atoms, if it is one; atoms on
    /// the same linear form are joined.
    pub fn as_conjunction(&self, negated: bool) -> Option<Vec<Atom>> {
        Some(join(&self.conjuncts(negated)?))
    }

    /// The event, or its opposite if `negated`, as a union of conjunctions; in each of them atoms
    /// on the same linear form are joined. `None` if there are more than `most`.
    pub fn disjuncts(&self, negated: bool, most: usize) -> Option<Vec<Vec<Atom>>> {
        let (a, b, is_union) = match self {
            Self::Atom(atom) => {
                let set = match negated {
                    true => atom.set.complement(),
                    false => atom.set.clone(),
                };
                let linear = atom.linear.clone();
                return Some(vec![vec![Atom { linear, set }]]);
            }
            Self::Not(event) => return event.disjuncts(!negated, most),
            Self::Or(a, b) => (a, b, !negated),
            Self::And(a, b) => (a, b, negated),
        };
        let (mut left, right) = (a.disjuncts(negated, most)?, b.disjuncts(negated, most)?);
        let count = match is_union {
            true => left.len() + right.len(),
            false => left.len() * right.len(),
        };
        if count > most {
            return None;
        }
        if is_union {
            left.extend(right);
            return Some(left);
        }
        let pairs = left.iter().flat_map(|a| right.iter().map(move |b| (a, b)));
        Some(pairs.map(|(a, b)| join(a.iter().chain(b))).collect())
    }

    fn conjuncts(&self, negated: bool) -> Option<Vec<Atom>> {
        match (self, negated) {
            (Self::Not(event), _) => event.conjuncts(!negated),
            (Self::And(a, b), false) | (Self::Or(a, b), true) => {
                let mut atoms = a.conjuncts(negated)?;
                atoms.extend(b.conjuncts(negated)?);
                Some(atoms)
            }
            // a union on one linear form is still a single atom
            _ => {
                let mut forms: Vec<Vec<(usize, f64)>> = Vec::new();
                self.visit_atoms(&mut |atom| {
                    if !forms.contains(&atom.linear) {
                        forms.push(atom.linear.clone());
                    }
                });
                let [linear] = <[_; 1]>::try_from(forms).ok()?;
                let set = self.fold();
                let set = if negated { set.complement() } else { set };
                Some(vec![Atom { linear, set }])
            }
        }
    }
}

/// The atoms, with those on the same linear form as one.
fn join<'a>(atoms: impl IntoIterator<Item = &'a Atom>) -> Vec<Atom> {
    let mut joined: Vec<Atom> = Vec::new();
    for atom in atoms {
        match joined.iter_mut().find(|known| known.linear == atom.linear) {
            Some(known) => known.set = known.set.intersection(&atom.set),
            None => joined.push(atom.clone()),
        }
    }
    joined
}

/// What is wrong, and at which byte.
#[derive(Debug)]
struct Problem {
    at: usize,
    message: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f64),
    Name(String),
    Quoted(String),
    Symbol(&'static str),
    End,
}

/// Longest first, so that `<=` is not read as `<`.
const SYMBOLS: [&str; 24] = [
    "<=", ">=", "==", "!=", "<>", "≤", "≥", "≠", "∈", "∪", "∞", "<", ">", "=", "(", ")", "[", "]",
    "{", "}", ",", "+", "-", "*",
];

/// A token, where it starts and where it ends.
type Placed = (Token, usize, usize);

fn tokenize(text: &str) -> Result<Vec<Placed>, Problem> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        let rest = &text[at..];
        if c.is_whitespace() {
            at += c.len_utf8();
            continue;
        }
        let (token, length) = if c.is_ascii_digit() || c == '.' {
            number(rest, at)?
        } else if c == '"' || c == '\'' || c == '`' {
            let end = rest[1..].find(c).ok_or_else(|| Problem {
                at,
                message: format!("the quote {c} is not closed"),
            })?;
            (Token::Quoted(rest[1..=end].to_owned()), end + 2)
        } else if c.is_alphabetic() || c == '_' {
            let length = rest
                .find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '.'))
                .unwrap_or(rest.len());
            (word(&rest[..length]), length)
        } else if c == '/' {
            (Token::Symbol("/"), 1)
        } else if let Some(symbol) = SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            let token = match *symbol {
                "∞" => Token::Number(f64::INFINITY),
                "==" => Token::Symbol("="),
                "<>" | "≠" => Token::Symbol("!="),
                "≤" => Token::Symbol("<="),
                "≥" => Token::Symbol(">="),
                "∈" => Token::Name("in".to_owned()),
                other => Token::Symbol(other),
            };
            (token, symbol.len())
        } else {
            return Err(Problem {
                at,
                message: format!("unexpected character '{c}'"),
            });
        };
        tokens.push((token, at, at + length));
        at += length;
    }
    tokens.push((Token::End, text.len(), text.len()));
    Ok(tokens)
}

/// Whether a name can be written without quotes.
fn is_plain(name: &str) -> bool {
    matches!(&tokenize(name).as_deref(), Ok([(Token::Name(word), _, _), (Token::End, _, _)])
        if !KEYWORDS.contains(&word.as_str()))
}

const KEYWORDS: [&str; 4] = ["and", "or", "not", "in"];

fn word(word: &str) -> Token {
    match word.to_ascii_lowercase().as_str() {
        "inf" | "infinity" => Token::Number(f64::INFINITY),
        keyword if KEYWORDS.contains(&keyword) => Token::Name(keyword.to_owned()),
        _ => Token::Name(word.to_owned()),
    }
}

fn number(rest: &str, at: usize) -> Result<(Token, usize), Problem> {
    let bytes = rest.as_bytes();
    let digits = |mut i: usize| {
        while bytes.get(i).is_some_and(u8::is_ascii_digit) {
            i += 1;
        }
        i
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    match rest[..end].parse::<f64>() {
        Ok(value) => Ok((Token::Number(value), end)),
        Err(_) => Err(Problem {
            at,
            message: format!("\"{}\" is not a number", &rest[..end]),
        }),
    }
}

/// `Σ coefficient · variable + constant`.
#[derive(Debug, Clone, Default)]
struct Linear {
    terms: Vec<(usize, f64)>,
    constant: f64,
}

impl Linear {
    fn add(&mut self, sign: f64, other: &Self) {
        for &(variable, coefficient) in &other.terms {
            match self.terms.binary_search_by_key(&variable, |&(v, _)| v) {
                Ok(i) => self.terms[i].1 += sign * coefficient,
                Err(i) => self.terms.insert(i, (variable, sign * coefficient)),
            }
        }
        self.terms.retain(|&(_, coefficient)| coefficient != 0.0);
        self.constant += sign * other.constant;
    }

    /// The linear form lies in `set`, as an atom without constant.
    fn in_set(&self, set: &RealSet, at: usize) -> Result<Atom, Problem> {
        let problem = |message: &str| Problem {
            at,
            message: message.to_owned(),
        };
        let Some(&(_, first)) = self.terms.first() else {
            return Err(problem("a variable is needed here, there are only numbers"));
        };
        if self.terms.iter().any(|(_, c)| !c.is_finite()) || !self.constant.is_finite() {
            return Err(problem("a coefficient is not finite"));
        }
        let scale = if self.terms.len() == 1 { first } else { 1.0 };
        // adding 0 turns -0 into 0
        let move_end = |end: f64| (end - self.constant) / scale + 0.0;
        let parts = set.parts().iter().map(|part| {
            let (a, b) = (move_end(part.lower()), move_end(part.upper()));
            let (a, b, has_a, has_b) = if scale < 0.0 {
                (b, a, part.contains_upper(), part.contains_lower())
            } else {
                (a, b, part.contains_lower(), part.contains_upper())
            };
            Interval::new(a, b, has_a, has_b)
                .map_err(|_| problem("the numbers are too close to each other"))
        });
        Ok(Atom {
            linear: self.terms.iter().map(|&(v, c)| (v, c / scale)).collect(),
            set: parts.collect::<Result<RealSet, _>>()?,
        })
    }
}

/// Deeper nesting is no honest event, and recursion must end before the stack does.
const MAX_DEPTH: usize = 200;

struct Parser<'a> {
    tokens: Vec<Placed>,
    position: usize,
    variables: &'a Variables,
    depth: usize,
}

impl Parser<'_> {
    fn peek(&self) -> &Token {
        &self.tokens[self.position].0
    }

    fn at(&self) -> usize {
        self.tokens[self.position].1
    }

    fn advance(&mut self) {
        // the last token is `End` and stays
        self.position = (self.position + 1).min(self.tokens.len() - 1);
    }

    fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.peek(), Token::Symbol(found) if *found == symbol)
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Name(found) if found == word)
    }

    fn take_symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    fn take_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.advance();
        }
        found
    }

    fn problem(&self, message: impl Into<String>) -> Problem {
        Problem {
            at: self.at(),
            message: message.into(),
        }
    }

    fn expected(&self, what: &str) -> Problem {
        let found = match self.peek() {
            Token::End => "the event ends".to_owned(),
            Token::Number(value) => format!("found {value}"),
            Token::Name(name) | Token::Quoted(name) => format!("found \"{name}\""),
            Token::Symbol(symbol) => format!("found \"{symbol}\""),
        };
        self.problem(format!("expected {what}, but {found}"))
    }

    fn event(&mut self) -> Result<Event, Problem> {
        let mut event = self.term()?;
        while self.take_word("or") {
            event = Event::Or(Box::new(event), Box::new(self.term()?));
        }
        Ok(event)
    }

    fn term(&mut self) -> Result<Event, Problem> {
        let mut event = self.factor()?;
        while self.take_word("and") {
            event = Event::And(Box::new(event), Box::new(self.factor()?));
        }
        Ok(event)
    }

    fn factor(&mut self) -> Result<Event, Problem> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.problem("the event is nested too deeply"));
        }
        let event = if self.take_word("not") {
            Event::Not(Box::new(self.factor()?))
        } else if self.take_symbol("(") {
            let event = self.event()?;
            if !self.take_symbol(")") {
                return Err(self.expected("\"and\", \"or\" or a closing parenthesis"));
            }
            event
        } else {
            self.comparison()?
        };
        self.depth -= 1;
        Ok(event)
    }

    fn comparison(&mut self) -> Result<Event, Problem> {
        let at = self.at();
        let mut left = self.linear()?;
        let negated = self.is_word("not");
        if negated {
            self.advance();
        }
        if self.take_word("in") {
            let mut set = self.set()?;
            while self.is_symbol("∪") || (self.is_word("or") && self.opens_set_after_or()) {
                self.advance();
                set = set.union(&self.set()?);
            }
            let atom = Event::Atom(left.in_set(&set, at)?);
            return Ok(if negated {
                Event::Not(Box::new(atom))
            } else {
                atom
            });
        }
        if negated {
            return Err(self.expected("\"in\""));
        }
        let mut chain: Option<Event> = None;
        while let Token::Symbol(operator @ ("<" | "<=" | ">" | ">=" | "=" | "!=")) = *self.peek() {
            self.advance();
            let right = self.linear()?;
            let event = Event::Atom(compare(&left, operator, &right, at)?);
            chain = Some(match chain {
                None => event,
                Some(before) => Event::And(Box::new(before), Box::new(event)),
            });
            left = right;
        }
        chain.ok_or_else(|| self.expected("a comparison (<, <=, =, !=, >=, >, in)"))
    }

    /// After `x in [0, 1]`, whether `or` continues the set (`or [2, 3]`) and not the event
    /// (`or x > 2`).
    fn opens_set_after_or(&self) -> bool {
        matches!(
            self.tokens.get(self.position + 1),
            Some((Token::Symbol("[" | "{"), _, _))
        )
    }

    fn set(&mut self) -> Result<RealSet, Problem> {
        let at = self.at();
        if self.take_symbol("{") {
            let mut points = vec![self.constant()?];
            while self.take_symbol(",") {
                points.push(self.constant()?);
            }
            if !self.take_symbol("}") {
                return Err(self.expected("\",\" or \"}\""));
            }
            return RealSet::points(&points).map_err(|error| Problem {
                at,
                message: error.to_string(),
            });
        }
        let contains_lower = self.is_symbol("[");
        if !contains_lower && !self.is_symbol("(") {
            return Err(self.expected("a set like [0, 1], (0, 1] or {1, 2}"));
        }
        self.advance();
        let lower = self.constant()?;
        if !self.take_symbol(",") {
            return Err(self.expected("\",\" between the ends of the interval"));
        }
        let upper = self.constant()?;
        let contains_upper = self.is_symbol("]");
        if !contains_upper && !self.is_symbol(")") {
            return Err(self.expected("\"]\" or \")\" at the end of the interval"));
        }
        self.advance();
        // an infinite end is a limit: whether it belongs to the interval makes no difference
        let contains_lower = contains_lower || lower == f64::NEG_INFINITY;
        let contains_upper = contains_upper || upper == f64::INFINITY;
        Interval::new(lower, upper, contains_lower, contains_upper)
            .map(RealSet::from)
            .map_err(|_| Problem {
                at,
                message: "the interval is empty: its lower end must lie below its upper end"
                    .to_owned(),
            })
    }

    fn constant(&mut self) -> Result<f64, Problem> {
        let sign = if self.take_symbol("-") {
            -1.0
        } else {
            self.take_symbol("+");
            1.0
        };
        match *self.peek() {
            Token::Number(value) => {
                self.advance();
                Ok(sign * value)
            }
            _ => Err(self.expected("a number")),
        }
    }

    fn linear(&mut self) -> Result<Linear, Problem> {
        let mut sign = if self.take_symbol("-") {
            -1.0
        } else {
            self.take_symbol("+");
            1.0
        };
        let mut sum = Linear::default();
        loop {
            let product = self.product()?;
            sum.add(sign, &product);
            sign = if self.take_symbol("+") {
                1.0
            } else if self.take_symbol("-") {
                -1.0
            } else {
                return Ok(sum);
            };
        }
    }

    fn product(&mut self) -> Result<Linear, Problem> {
        if let Token::Number(value) = *self.peek() {
            let mut value = value;
            self.advance();
            let mut times = self.take_symbol("*");
            if !times && self.take_symbol("/") {
                value /= self.divisor()?;
                times = self.take_symbol("*");
            }
            if times || self.starts_variable() {
                let variable = self.variable()?;
                return Ok(Linear {
                    terms: if value == 0.0 {
                        vec![]
                    } else {
                        vec![(variable, value)]
                    },
                    constant: 0.0,
                });
            }
            return Ok(Linear {
                terms: vec![],
                constant: value,
            });
        }
        if !self.starts_variable() {
            return Err(self.expected("a number or a variable"));
        }
        let variable = self.variable()?;
        let coefficient = if self.take_symbol("*") {
            self.constant()?
        } else if self.take_symbol("/") {
            1.0 / self.divisor()?
        } else {
            1.0
        };
        Ok(Linear {
            terms: if coefficient == 0.0 {
                vec![]
            } else {
                vec![(variable, coefficient)]
            },
            constant: 0.0,
        })
    }

    fn divisor(&mut self) -> Result<f64, Problem> {
        let at = self.at();
        let value = self.constant()?;
        if value == 0.0 {
            return Err(Problem {
                at,
                message: "division by zero".to_owned(),
            });
        }
        Ok(value)
    }

    fn starts_variable(&self) -> bool {
        match self.peek() {
            Token::Quoted(_) => true,
            Token::Name(name) => !KEYWORDS.contains(&name.as_str()),
            _ => false,
        }
    }

    fn variable(&mut self) -> Result<usize, Problem> {
        if !self.starts_variable() {
            return Err(self.expected("a variable"));
        }
        let (Token::Name(name) | Token::Quoted(name)) = self.peek().clone() else {
            return Err(self.expected("a variable"));
        };
        let bare = matches!(self.peek(), Token::Name(_));
        let at = self.at();
        self.advance();
        let indexed = &self.variables.indexed;
        let first_label = indexed.iter().find(|(known, _)| *known == name);
        let is_indexed = first_label.is_some();
        if bare && self.is_symbol("[") && (is_indexed || self.variables.has_levels(&name)) {
            self.advance();
            // a label may be a number or hold characters that are no name: take the text up to the
            // bracket
            let first = self.position;
            let label = match self.peek().clone() {
                Token::Quoted(label) | Token::Name(label) => label,
                Token::Number(value) => self.label_text(&name, is_indexed, value),
                _ => return Err(self.expected("a label")),
            };
            let label_at = self.at();
            if self.position == first {
                self.advance();
            }
            if !self.take_symbol("]") {
                return Err(
                    self.expected("\"]\" after the label (quote a label that is not a plain word)")
                );
            }
            if !is_indexed {
                let name = format!("{name}[{label}]");
                return self
                    .variables
                    .find(&name)
                    .map_err(|message| Problem { at, message });
            }
            let labels = &self.variables.labels;
            let offset = first_label.map_or(0, |(_, first)| *first);
            return labels
                .iter()
                .position(|known| *known == label)
                .map(|place| offset + place)
                .ok_or_else(|| Problem {
                    at: label_at,
                    message: unknown("label", &label, labels.iter().map(String::as_str)),
                });
        }
        let variables = self.variables;
        variables
            .find(&name)
            .map_err(|message| Problem { at, message })
    }

    /// The label for a number token, as it is spelled among the labels: `p[1]` means the label `1`,
    /// also `1.0`; or among the levels of a column.
    fn label_text(&self, name: &str, is_indexed: bool, value: f64) -> String {
        let labels: Vec<&str> = if is_indexed {
            self.variables.labels.iter().map(String::as_str).collect()
        } else {
            self.variables.levels(name).collect()
        };
        let spelled = value.to_string();
        labels
            .iter()
            .find(|label| **label == spelled)
            .or_else(|| labels.iter().find(|label| label.parse() == Ok(value)))
            .map_or(spelled.clone(), |label| (*label).to_owned())
    }
}

fn compare(left: &Linear, operator: &str, right: &Linear, at: usize) -> Result<Atom, Problem> {
    // an infinite constant would turn `x < inf` into arithmetic on infinities: it is the whole or
    // the empty set
    let mut form = left.clone();
    form.constant = 0.0;
    form.add(
        -1.0,
        &Linear {
            terms: right.terms.clone(),
            constant: 0.0,
        },
    );
    let bound = right.constant - left.constant;
    let set = match operator {
        "<" => Interval::below(bound).map(RealSet::from),
        "<=" => Interval::at_most(bound).map(RealSet::from),
        ">" => Interval::above(bound).map(RealSet::from),
        ">=" => Interval::at_least(bound).map(RealSet::from),
        "=" => Interval::point(bound).map(RealSet::from),
        _ => Interval::point(bound).map(|point| RealSet::from(point).complement()),
    };
    let set = match set {
        Ok(set) => set,
        Err(_) if bound.is_nan() => {
            return Err(Problem {
                at,
                message: "the infinities cancel".to_owned(),
            });
        }
        // x < -inf and x > inf
        Err(_) => RealSet::empty(),
    };
    form.in_set(&set, at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scalar(text: &str) -> RealSet {
        let variables = Variables::scalar(&["x", "p"]);
        Event::parse(text, &variables).unwrap().as_set().unwrap()
    }

    fn error(text: &str, variables: &Variables) -> String {
        Event::parse(text, variables).unwrap_err().to_string()
    }

    fn labels(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn each_form_of_the_grammar_gives_its_set() {
        let cases = [
            ("x > 0.5", "(0.5, inf]"),
            ("x >= 1", "[1, inf]"),
            ("x<-1e-3", "[-inf, -0.001)"),
            ("p <= .5", "[-inf, 0.5]"),
            ("x = 0", "{0}"),
            ("x == 0", "{0}"),
            ("x != 0", "[-inf, 0) ∪ (0, inf]"),
            ("0.2 <= x <= 0.4", "[0.2, 0.4]"),
            ("0.2 < x <= 0.4", "(0.2, 0.4]"),
            ("0.4 > x >= 0.2", "[0.2, 0.4)"),
            ("3 < x", "(3, inf]"),
            ("x in [1, 2)", "[1, 2)"),
            ("x in (-inf, 2]", "[-inf, 2]"),
            ("x in {2, 1}", "{1} ∪ {2}"),
            ("x not in [0, 1]", "[-inf, 0) ∪ (1, inf]"),
            ("x in [0, 1] or [3, 4]", "[0, 1] ∪ [3, 4]"),
            ("x in [0, 1] ∪ (3, 4]", "[0, 1] ∪ (3, 4]"),
            ("x in [0, 1] or x > 3", "[0, 1] ∪ (3, inf]"),
            ("not (x > 1)", "[-inf, 1]"),
            ("not x > 1 and x > 0", "(0, 1]"),
            ("x < 0 or x > 1 and x < 2", "[-inf, 0) ∪ (1, 2)"),
            ("(x < 0 or x > 1) and x < 2", "[-inf, 0) ∪ (1, 2)"),
            ("2*x + 1 > 0", "(-0.5, inf]"),
            ("1 - x <= 3", "[-2, inf]"),
            ("-2 x in [1, 3)", "(-1.5, -0.5]"),
            ("x/2 > 1", "(2, inf]"),
            ("x - 1 < 2 - x", "[-inf, 1.5)"),
            ("x < inf", "[-inf, inf)"),
            ("x > inf", "∅"),
            ("x <= 1 and x > 1", "∅"),
            ("x AND_ > 1", ""),
        ];
        for (text, set) in cases {
            if set.is_empty() {
                assert!(Event::parse(text, &Variables::scalar(&["x"])).is_err());
            } else {
                assert_eq!(scalar(text).to_string(), set, "{text}");
            }
        }
    }

    #[test]
    fn errors_point_at_the_place() {
        let variables = Variables::scalar(&["x", "rate"]);
        assert_eq!(
            error("x > ", &variables),
            "event \"x > \": expected a number or a variable, but the event ends\n  x > \n      ^"
        );
        assert_eq!(
            error("x > 1 & x < 2", &variables),
            "event \"x > 1 & x < 2\": unexpected character '&'\n  x > 1 & x < 2\n        ^"
        );
        assert!(
            error("1 < rat", &variables)
                .starts_with("event \"1 < rat\": unknown variable \"rat\", did you mean \"rate\"?")
        );
        for (text, column) in [
            ("x in [2, 1]", 5),
            ("x in 3", 5),
            ("x", 1),
            ("(x > 1", 6),
            ("x > 1)", 5),
            ("1 < 2", 0),
            ("x > 1 2", 6),
            ("x * 1e400 > 1", 0),
            ("x > 1..2", 6),
            ("x / 0 > 1", 4),
            ("x = 'a", 4),
            ("∞ > ∞ and", 0),
            ("", 0),
        ] {
            let message = error(text, &variables);
            let caret = message.lines().last().unwrap();
            assert_eq!(caret.find('^'), Some(column + 2), "{message}");
        }
        let deep = format!("{}x > 1{}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(error(&deep, &variables).contains("nested too deeply"));
    }

    #[test]
    fn coordinates_are_called_by_label_or_index() {
        let variables = Variables::vector(&["p"], &labels(&["red", "dark blue", "1"]));
        let coordinates = |text: &str| Event::parse(text, &variables).unwrap().coordinates();
        assert_eq!(coordinates("red > 0.1"), [0]);
        assert_eq!(coordinates("p[red] > 0.1"), [0]);
        assert_eq!(coordinates("p[\"dark blue\"] > 0.1"), [1]);
        assert_eq!(coordinates("'dark blue' > 0.1 or p[1] = 0"), [1, 2]);
        let message = error("dark > 0", &variables);
        assert!(
            message.contains("put a name that is not a plain word in quotes"),
            "{message}"
        );
        let message = error("p[rad] > 0", &variables);
        assert!(
            message.contains("unknown label \"rad\", did you mean \"red\"?"),
            "{message}"
        );
    }

    #[test]
    fn conjunctions_join_atoms_on_the_same_form() {
        let variables = Variables::vector(&["mean"], &labels(&["a", "b"]));
        let atoms = |text: &str| {
            Event::parse(text, &variables)
                .unwrap()
                .as_conjunction(false)
        };
        let found = atoms("0 < a < 1 and 2*a - b > 1 and not (a > 0.5)").unwrap();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].linear, [(0, 1.0)]);
        assert_eq!(found[0].set.to_string(), "(0, 0.5]");
        assert_eq!(found[1].linear, [(0, 2.0), (1, -1.0)]);
        assert_eq!(found[1].set.to_string(), "(1, inf]");
        assert_eq!(atoms("a > 0 or b > 0"), None);
        assert_eq!(atoms("a > 0 or a < -1").unwrap().len(), 1);
        let opposite = Event::parse("a > 0 or not (b > 0)", &variables).unwrap();
        let found = opposite.as_conjunction(true).unwrap();
        let sets: Vec<String> = found.iter().map(|atom| atom.set.to_string()).collect();
        assert_eq!(sets, ["[-inf, 0]", "(0, inf]"]);
    }

    type Comparison = fn(f64, f64) -> bool;

    /// An event text and the truth of it at a point, made together.
    fn events() -> impl Strategy<Value = (String, Comparison, f64)> {
        let operators: [(&str, Comparison); 6] = [
            ("<", |x, c| x < c),
            ("<=", |x, c| x <= c),
            (">", |x, c| x > c),
            (">=", |x, c| x >= c),
            ("=", |x, c| x == c),
            ("!=", |x, c| x != c),
        ];
        (0..6usize, -3i32..4).prop_map(move |(i, c)| {
            let c = f64::from(c);
            (format!("x {} {c}", operators[i].0), operators[i].1, c)
        })
    }

    proptest! {
        #[test]
        fn the_set_holds_exactly_the_points_where_the_sentence_is_true(
            (a, is_a, ca) in events(), (b, is_b, cb) in events(), (c, is_c, cc) in events(), x in -8i32..9
        ) {
            let x = f64::from(x) / 2.0;
            let text = format!("{a} and not ({b}) or {c}");
            let truth = (is_a(x, ca) && !is_b(x, cb)) || is_c(x, cc);
            prop_assert_eq!(scalar(&text).contains(x), truth, "{}", text);
        }

        #[test]
        fn no_text_makes_the_parser_panic(text in "[x0-9<>=!(){}, andorti\\[\\].*/+'\"∞≤-]{0,40}") {
            let _ = Event::parse(&text, &Variables::scalar(&["x"]));
            let _ = Event::parse(&text, &Variables::vector(&["x"], &labels(&["a", "0"])));
        }
    }
}
