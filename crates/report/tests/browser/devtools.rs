//! A real browser, driven over the DevTools protocol: JSON messages that end in a zero byte,
//! through a pair of pipes.
//!
//! Nothing but Chromium is needed. It is looked for as `$MAXITIVE_CHROMIUM`, then under its usual
//! names.

use std::cell::RefCell;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Once;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;

/// How long an answer may take; a busy machine starts a browser in seconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// A browser with one tab.
pub struct Browser {
    child: Child,
    input: RefCell<ChildStdin>,
    output: Receiver<Value>,
    next: RefCell<u64>,
    session: RefCell<Option<String>>,
    events: RefCell<Vec<Value>>,
    folder: TempDir,
}

/// A browser, or `None` where there is none and none is required.
///
/// # Panics
/// If `MAXITIVE_BROWSER` is `required` and there is none.
pub fn browser() -> Option<Browser> {
    let Some(program) = find() else {
        assert!(
            std::env::var_os("MAXITIVE_BROWSER").is_none_or(|word| word != "required"),
            "a browser is required (MAXITIVE_BROWSER) and no Chromium was found"
        );
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            // not by a macro, whose output the test harness keeps to itself
            let _ = writeln!(
                std::io::stderr(),
                "SKIPPED: tests of the report in a browser, since no Chromium was found; install it or set MAXITIVE_CHROMIUM"
            );
        });
        return None;
    };
    Some(Browser::start(&program))
}

fn find() -> Option<PathBuf> {
    if let Some(program) = std::env::var_os("MAXITIVE_CHROMIUM") {
        return Some(program.into());
    }
    let names = [
        "chromium",
        "chromium-browser",
        "google-chrome",
        "google-chrome-stable",
    ];
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .flat_map(|folder| names.map(|name| folder.join(name)))
        .find(|program| program.is_file())
}

impl Browser {
    fn start(program: &Path) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // the protocol speaks on descriptors 3 and 4, which the shell makes of our two pipes
        let mut child = Command::new("sh")
            .arg("-c")
            .arg("exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null")
            .arg(program)
            .args([
                "--remote-debugging-pipe",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-quic",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--disable-component-update",
                "--disable-sync",
                "--disable-extensions",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                "--window-size=1280,900",
            ])
            .arg(format!(
                "--user-data-dir={}",
                folder.path().join("profile").display()
            ))
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let mut reader = BufReader::new(child.stdout.take().unwrap());
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            while reader.read_until(0, &mut bytes).is_ok_and(|n| n > 0) {
                bytes.pop();
                let message = serde_json::from_slice(&bytes);
                bytes.clear();
                if message.is_ok_and(|message| sender.send(message).is_err()) {
                    break;
                }
            }
        });
        let browser = Self {
            child,
            input: RefCell::new(input),
            output,
            next: RefCell::new(0),
            session: RefCell::new(None),
            events: RefCell::new(Vec::new()),
            folder,
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let attached = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target["targetId"], "flatten": true}),
        );
        *browser.session.borrow_mut() = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Sends a command and waits for its answer; events that come meanwhile are kept.
    pub fn call(&self, method: &str, parameters: Value) -> Value {
        let id = {
            let mut next = self.next.borrow_mut();
            *next += 1;
            *next
        };
        let mut message = json!({"id": id, "method": method, "params": parameters});
        if let Some(session) = self.session.borrow().as_ref() {
            message["sessionId"] = json!(session);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.input.borrow_mut().write_all(&bytes).unwrap();
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(message) if message["id"] == id => {
                    assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                    return message["result"].clone();
                }
                Ok(message) => self.events.borrow_mut().push(message),
                Err(RecvTimeoutError::Timeout) => panic!("{method}: no answer"),
                Err(RecvTimeoutError::Disconnected) => panic!("{method}: the browser has gone"),
            }
        }
    }

    /// Shows a page from a file and waits until its script is done.
    pub fn open(&self, html: &str) {
        // a folder of its own, so that no earlier page is taken for this one
        let folder = self.folder.path().join(self.next.borrow().to_string());
        std::fs::create_dir(&folder).unwrap();
        let file = folder.join("report.html");
        std::fs::write(&file, html).unwrap();
        let address = format!("file://{}", file.display());
        self.events.borrow_mut().clear();
        self.call("Page.navigate", json!({"url": address}));
        let is_ready = format!(
            "location.href === {} && document.readyState === 'complete' && document.documentElement.dataset.ready === 'yes'",
            json!(address)
        );
        let end = Instant::now() + PATIENCE;
        while self.evaluate(&is_ready) != true {
            let late = Instant::now() > end;
            assert!(!late, "the page is not ready: {:?}", self.complaints());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// The value of a JavaScript expression.
    pub fn evaluate(&self, expression: &str) -> Value {
        let answer = self.call(
            "Runtime.evaluate",
            json!({"expression": expression, "returnByValue": true, "awaitPromise": true}),
        );
        assert!(
            answer["exceptionDetails"].is_null(),
            "{expression}: {}",
            answer["exceptionDetails"]
        );
        answer["result"]["value"].clone()
    }

    /// The value of an expression that is a text.
    pub fn text(&self, expression: &str) -> String {
        let value = self.evaluate(expression);
        match value.as_str() {
            Some(text) => text.to_owned(),
            None => panic!("{expression} is {value}"),
        }
    }

    /// The value of an expression that is a number.
    pub fn number(&self, expression: &str) -> f64 {
        let value = self.evaluate(expression);
        value
            .as_f64()
            .unwrap_or_else(|| panic!("{expression} is {value}"))
    }

    /// Errors and warnings on the console, exceptions, and requests for anything but the page
    /// itself.
    pub fn complaints(&self) -> Vec<String> {
        // an answer after all earlier events
        self.evaluate("1");
        let mut found = Vec::new();
        for event in self.events.borrow().iter() {
            let parameters = &event["params"];
            match event["method"].as_str().unwrap_or_default() {
                "Runtime.exceptionThrown" => found.push(parameters["exceptionDetails"].to_string()),
                "Runtime.consoleAPICalled" => found.push(parameters["args"].to_string()),
                "Log.entryAdded" => found.push(parameters["entry"].to_string()),
                "Network.requestWillBeSent" => {
                    let address = parameters["request"]["url"].as_str().unwrap_or_default();
                    let is_page =
                        address.starts_with("file://") && address.ends_with("/report.html");
                    // what stands in the page is no request to anybody
                    if !is_page && !address.starts_with("data:image/png;base64,") {
                        found.push(format!("request for {address}"));
                    }
                }
                _ => {}
            }
        }
        found
    }

    /// Scrolls an element into view and returns the place of its middle.
    pub fn middle(&self, selector: &str) -> (f64, f64) {
        let place = self.evaluate(&format!(
            "(async () => {{ const e = document.querySelector({}); e.scrollIntoView({{block: 'center', behavior: 'instant'}}); \
             await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done))); const b = e.getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2]; }})()",
            json!(selector)
        ));
        (place[0].as_f64().unwrap(), place[1].as_f64().unwrap())
    }

    /// Moves the mouse.
    pub fn point(&self, x: f64, y: f64) {
        self.mouse("mouseMoved", x, y);
    }

    /// Clicks in the middle of an element, as a hand would.
    pub fn click(&self, selector: &str) {
        let (x, y) = self.middle(selector);
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            self.mouse(kind, x, y);
        }
    }

    fn mouse(&self, kind: &str, x: f64, y: f64) {
        self.call(
            "Input.dispatchMouseEvent",
            json!({"type": kind, "x": x, "y": y, "button": if kind == "mouseMoved" { "none" } else { "left" }, "clickCount": 1}),
        );
    }

    /// Presses a key that has a name.
    pub fn press(&self, key: &str) {
        let code = match key {
            "ArrowRight" => 39,
            "ArrowLeft" => 37,
            "Escape" => 27,
            "Tab" => 9,
            "Enter" => 13,
            other => panic!("no code for the key {other}"),
        };
        let mut parameters =
            json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code});
        if key == "Enter" {
            parameters["text"] = json!("\r");
        }
        self.call("Input.dispatchKeyEvent", parameters.clone());
        parameters["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", parameters);
    }

    /// Gives the window a size; the page's script has had time to draw anew.
    pub fn resize(&self, width: u32, height: u32, is_phone: bool) {
        self.call(
            "Emulation.setDeviceMetricsOverride",
            json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone}),
        );
        std::thread::sleep(Duration::from_millis(250));
    }

    /// Emulates a medium (`print`, or empty for the screen) and a preferred color scheme.
    pub fn medium(&self, medium: &str, scheme: &str) {
        self.call(
            "Emulation.setEmulatedMedia",
            json!({"media": medium, "features": [{"name": "prefers-color-scheme", "value": scheme}]}),
        );
    }
}

impl Browser {
    /// Keeps a picture of the whole page as `NAME.png` where `MAXITIVE_PICTURES` names a folder:
    /// for people to look at.
    pub fn picture(&self, name: &str) {
        let Some(folder) = std::env::var_os("MAXITIVE_PICTURES") else {
            return;
        };
        let size = self.evaluate(
            "[document.documentElement.clientWidth, document.documentElement.scrollHeight]",
        );
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1});
        let answer = self.call(
            "Page.captureScreenshot",
            json!({"format": "png", "captureBeyondViewport": true, "clip": clip}),
        );
        let bytes = decode(answer["data"].as_str().unwrap());
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(Path::new(&folder).join(format!("{name}.png")), bytes).unwrap();
    }

    /// The page printed on A4.
    pub fn print(&self, name: &str) -> Vec<u8> {
        let answer = self.call(
            "Page.printToPDF",
            json!({"paperWidth": 8.27, "paperHeight": 11.69, "preferCSSPageSize": true, "printBackground": true}),
        );
        let bytes = decode(answer["data"].as_str().unwrap());
        if let Some(folder) = std::env::var_os("MAXITIVE_PICTURES") {
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(Path::new(&folder).join(format!("{name}.pdf")), &bytes).unwrap();
        }
        bytes
    }
}

/// Bytes of a base64 text.
fn decode(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => u32::from(byte - b'A'),
        b'a'..=b'z' => u32::from(byte - b'a') + 26,
        b'0'..=b'9' => u32::from(byte - b'0') + 52,
        b'+' => 62,
        _ => 63,
    };
    let digits: Vec<u32> = text
        .bytes()
        .filter(|&byte| byte != b'=')
        .map(digit)
        .collect();
    let mut bytes = Vec::with_capacity(digits.len() * 3 / 4);
    for four in digits.chunks(4) {
        let word = four
            .iter()
            .enumerate()
            .fold(0, |word, (i, digit)| word | digit << (18 - 6 * i));
        bytes.extend_from_slice(&word.to_be_bytes()[1..four.len()]);
    }
    bytes
}

impl Drop for Browser {
    fn drop(&mut self) {
        // asked to leave, it takes its helpers with it
        let goodbye = b"{\"id\":0,\"method\":\"Browser.close\"}\0";
        let _ = self.input.borrow_mut().write_all(goodbye);
        let end = Instant::now() + Duration::from_secs(3);
        while Instant::now() < end {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
