//! `--slurm` without a Slurm: the script, and what it does when its task ends. The real one is
//! `benches/slurm/cluster.py`.

use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use crate::common::{Place, split};
use crate::training::{DATA, place};

const GRID: &str = "name = \"it's\"\nconfigs = [\"tiny.toml\"]\n[grid]\nseed = [0, 1, 2]\n";

fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let sweep = ["sweep", "sweep.toml", "--out", "my 'runs' 5%", "--slurm"];
    [&sweep[..], &DATA, more].concat()
}

/// A program of this name in the folder `bin`.
fn stand_in(place: &Place, name: &str, script: &str) {
    std::fs::create_dir_all(place.path("bin")).unwrap();
    let path = place.path("bin").join(name);
    std::fs::write(&path, format!("#!/bin/bash\n{script}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs a program with the stand-ins before those of the machine.
fn with_stand_ins(place: &Place, program: &str, arguments: &[&str]) -> Output {
    let bin = place.path("bin");
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    Command::new(program)
        .args(arguments)
        .env("PATH", path)
        .env("SLURM_JOB_ID", "77")
        .env("SLURM_CPUS_ON_NODE", "2")
        .current_dir(place.folder())
        .output()
        .unwrap()
}

#[test]
fn the_script_says_all_that_a_job_needs() {
    let place = place().with("sweep.toml", GRID);
    let more = split(
        "--print --tasks 8 --array-parallelism 2 --time 1h30m --partition gpu \
         --gpus a100:1 '--sbatch-arg=--account=my lab' --set optimizer.lr=0.2 \
         --threads 4",
    );
    let outcome = place.succeed(&words(&more));
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[0], "#!/bin/bash");
    let folder = place.folder().canonicalize().unwrap();
    let log = format!(
        "#SBATCH \"--output={}/my 'runs' 5%%/slurm/%A_%a.log\"",
        folder.display()
    );
    for line in [
        "#SBATCH --job-name=maxitive-it_s",
        // three runs are work for three tasks
        "#SBATCH --array=0-2%2",
        "#SBATCH --requeue",
        "#SBATCH --signal=B:USR1@120",
        "#SBATCH --time=90",
        "#SBATCH --partition=gpu",
        "#SBATCH --gpus=a100:1",
        "#SBATCH --cpus-per-task=4",
        "#SBATCH \"--account=my lab\"",
        &log,
    ] {
        assert!(lines.contains(&line), "{line}: {}", outcome.stdout);
    }
    let task = lines.iter().find(|line| line.ends_with("&")).unwrap();
    for part in [
        " sweep sweep.toml --out ",
        "/my '\\''runs'\\'' 5%' --set optimizer.lr=0.2 --data-dir data --unverified ",
        " --device cuda --together 1 --within 5220s --threads \"$threads\" &",
    ] {
        assert!(task.contains(part), "{part}: {task}");
    }
    assert_eq!(place.files(), ["data", "sweep.toml", "tiny.toml"]);
    // the script is one that bash reads
    let place = place.with("job.sh", &outcome.stdout);
    let checked = with_stand_ins(&place, "bash", &["-n", "job.sh"]);
    assert!(checked.status.success(), "{checked:?}");
    let outcome = place.succeed(
        "reproduce fmnist --seeds 2 --epochs 3 --slurm --print --data-dir data \
         --unverified",
    );
    let words = " reproduce fmnist --seeds 2 --epochs 3 --out ";
    outcome.stdout_has(words);
}

#[test]
fn a_job_is_submitted_and_its_task_queued_again_while_something_is_left() {
    let place = place().with("sweep.toml", GRID);
    let program = env!("CARGO_BIN_EXE_maxitive");
    // as Slurm has it: the number of the job, and the name of the cluster
    stand_in(&place, "sbatch", "echo \"$@\" >> submitted; echo '42;main'");
    stand_in(&place, "scontrol", "echo \"$@\" >> controlled");
    let submitted = with_stand_ins(&place, program, &words(&["--quiet", "--time", "1m"]));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(submitted.status.success(), "{}", text(&submitted.stderr));
    assert_eq!(text(&submitted.stdout), "42\n");
    let said = place.text("submitted");
    assert!(
        said.starts_with("--parsable ") && said.ends_with("/slurm/job.sh\n"),
        "{said}"
    );
    // the task, as Slurm would start it: all three runs, and nothing to queue again
    let job = "my 'runs' 5%/slurm/job.sh";
    let done = with_stand_ins(&place, "bash", &[job]);
    assert_eq!(done.status.code(), Some(0), "{}", text(&done.stderr));
    let status = place.json(&["sweep", "--status", "my 'runs' 5%"]);
    assert_eq!(status["finished"], 3);
    assert!(!place.path("controlled").exists());
    let again = with_stand_ins(&place, program, &words(&[]));
    assert!(again.status.success() && again.stdout.is_empty());
    let message = "Nothing is left to do: 3 runs: 3 finished\n";
    assert_eq!(text(&again.stderr), message);
    // a task whose time is over is queued again; a signal reaches it
    let script = place.text(job);
    let task = script.lines().find(|line| line.ends_with('&')).unwrap();
    for (stand_in, sent, code, queued) in [
        ("(exit 75) &", "", 0, true),
        ("(exit 3) &", "", 3, false),
        (
            "(trap 'exit 75' USR1; while :; do sleep 0.1; done) &",
            "USR1",
            0,
            true,
        ),
        (
            "(trap 'exit 143' TERM; while :; do sleep 0.1; done) &",
            "TERM",
            143,
            false,
        ),
    ] {
        let _ = std::fs::remove_file(place.path("controlled"));
        let mut changed = script.replace(task, stand_in);
        if !sent.is_empty() {
            let signal = format!("task=$!\n(sleep 0.5; kill -{sent} $$) &");
            changed = changed.replace("task=$!", &signal);
        }
        std::fs::write(place.path("job.sh"), changed).unwrap();
        let done = with_stand_ins(&place, "bash", &["job.sh"]);
        assert_eq!(done.status.code(), Some(code), "{stand_in}: {done:?}");
        let controlled = std::fs::read_to_string(place.path("controlled")).ok();
        assert_eq!(
            controlled,
            queued.then(|| "requeue 77\n".into()),
            "{stand_in}"
        );
    }
    stand_in(
        &place,
        "sbatch",
        "echo 'sbatch: error: invalid partition' >&2; exit 1",
    );
    std::fs::remove_file(place.path("my 'runs' 5%/tiny-seed0/record.json")).unwrap();
    let refused = with_stand_ins(&place, program, &words(&[]));
    assert_eq!(refused.status.code(), Some(1));
    let message = "error: sbatch refused the job: sbatch: error: invalid partition\n";
    assert_eq!(text(&refused.stderr), message);
}

#[test]
fn mistakes_about_jobs_are_named() {
    let place = place().with("sweep.toml", GRID);
    let run = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_maxitive"))
            .args(words(arguments))
            .env("PATH", "/nowhere")
            .current_dir(place.folder())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), stderr)
    };
    for (arguments, part) in [
        (&[][..], "there is no sbatch on this machine"),
        (&["--gpus", "4"], "a task trains on one GPU"),
        (&["--partition", "a b"], "not a name"),
        (&["--time", "soon"], "not a time such as"),
        (&["--tasks", "0"], "0 is not in 1..=1000"),
        (&["--sbatch-arg", "account"], "not an option of sbatch"),
        (&["--shard", "1/2"], "cannot be used with"),
        (&["--within", "2h"], "cannot be used with"),
        (&["--out", "a\\b"], "cannot be used multiple times"),
    ] {
        let (code, stderr) = run(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.contains(part), "{arguments:?}: {stderr}");
    }
    for (path, part) in [
        ("a\\b", "no path with a backslash"),
        ("a\nb", "only plain text"),
    ] {
        let outcome = place.refuse(&["sweep", "sweep.toml", "--out", path, "--slurm", "--print"]);
        outcome.stderr_has(part);
    }
    let outcome = place.refuse("sweep sweep.toml --out x --tasks 2");
    outcome.stderr_has("--slurm");
}
