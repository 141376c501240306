//! Several nodes of a job as one: documents of `--merge`, of the tasks of a launcher, of servers.

use std::collections::{BTreeMap, BTreeSet};

use crate::nics::NicState;
use crate::ranks::EndedRank;
use crate::reading::{NodeReading, RankState, UnansweredNodes, Unreadable};
use crew::host_list;
use facts::error::Failure;
use facts::number::{counted, listed};

/// Programs and reasons that a failure names.
const MOST_NAMES: usize = 4;

/// The name of each node, and what was read there or why nothing was.
pub type NodeAnswers = Vec<(String, Result<NodeReading, String>)>;

/// Returns several nodes of a job as one. Ranks and NICs have the names of their nodes. Nodes with
/// another program than the one of `own_job` count as nodes without an answer.
///
/// # Errors
///
/// No node with an answer, and nodes of several parallel programs.
pub fn merged(answers: NodeAnswers, own_job: Option<&str>) -> Result<NodeReading, Failure> {
    let hosts: BTreeSet<&str> = answers.iter().map(|(host, _)| host.as_str()).collect();
    let count = hosts.len() as u64;
    let mut reasons: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut nodes = Vec::new();
    for (host, answer) in answers {
        match answer {
            Ok(node) => nodes.push(NodeReading { host, ..node }),
            Err(why) => reasons.entry(why).or_default().push(host),
        }
    }
    let is_own = |node: &NodeReading| own_job.is_some() && node.job_id.as_deref() == own_job;
    if nodes.iter().any(is_own) {
        let (own, others) = nodes.into_iter().partition(is_own);
        nodes = own;
        let others: Vec<NodeReading> = others;
        for NodeReading { host, job, .. } in others {
            let why =
                format!("no rank of job {}, but of {}", own_job.unwrap_or_default(), name(&job));
            reasons.entry(why).or_default().push(host);
        }
    }
    let without_answer = reasons.into_iter().map(|(why, hosts)| UnansweredNodes {
        nodes: host_list::compress(hosts.iter().map(String::as_str)),
        count: hosts.len() as u32,
        why,
    });
    let without_answer: Vec<UnansweredNodes> = without_answer.collect();
    if nodes.is_empty() {
        let reasons = without_answer.iter().map(|group| format!("{}: {}", group.nodes, group.why));
        let reasons = reasons.take(MOST_NAMES).collect::<Vec<_>>().join("; ");
        return Err(Failure::environment(format!("no node shows a rank of the job: {reasons}"))
            .with_hint("cxidiag why --job --local on one of the nodes says more"));
    }
    have_one_program(&nodes)?;
    let mut all = NodeReading {
        host: match nodes.len() as u64 {
            read if read < count => format!("{read} of {}", counted(count, "node")),
            _ => counted(count, "node"),
        },
        without_answer,
        ..NodeReading::default()
    };
    let mut seen = BTreeSet::new();
    for node in nodes {
        // Two tasks of one node, or two documents of it.
        let is_known = node.ranks.iter().any(|rank| seen.contains(&(node.host.clone(), rank.pid)));
        if !is_known {
            seen.extend(node.ranks.iter().map(|rank| (node.host.clone(), rank.pid)));
            all.add(node);
        }
    }
    Ok(all)
}

impl NodeReading {
    /// Whether it has several nodes.
    pub fn is_merged(&self) -> bool {
        self.ranks.iter().any(|rank| rank.host.is_some()) || !self.without_answer.is_empty()
    }

    fn add(&mut self, node: Self) {
        let host = node.host;
        self.ranks.extend(node.ranks.into_iter().map(|rank| {
            let host = Some(host.clone());
            RankState { host, ..rank }
        }));
        self.ended.extend(node.ended.into_iter().map(|ended| {
            let proof = format!("{host}: {}", ended.proof);
            EndedRank { proof, ..ended }
        }));
        self.nics.extend(node.nics.into_iter().map(|nic| {
            let device = format!("{host} {}", nic.device);
            NicState { device, ..nic }
        }));
        self.unreadable.extend(node.unreadable.into_iter().map(|unreadable| {
            let what = format!("{host}: {}", unreadable.what);
            Unreadable { what, ..unreadable }
        }));
        self.hidden.extend(node.hidden);
        self.helpers = self.helpers.saturating_add(node.helpers);
        self.seconds = self.seconds.max(node.seconds);
        self.job = self.job.take().or(node.job);
        self.job_id = self.job_id.take().or(node.job_id);
        self.step = self.step.take().or(node.step);
        self.size = self.size.or(node.size);
    }
}

/// Fails if the nodes run several parallel programs: their ranks do not wait for each other.
fn have_one_program(nodes: &[NodeReading]) -> Result<(), Failure> {
    let mut programs: BTreeMap<_, Vec<&str>> = BTreeMap::new();
    for NodeReading { host, job, step, .. } in nodes.iter().filter(|node| !node.ranks.is_empty()) {
        programs.entry((job, step)).or_default().push(host);
    }
    if programs.len() < 2 {
        return Ok(());
    }
    let names: BTreeSet<_> = programs.keys().map(|(job, _)| job).collect();
    let texts = programs.iter().map(|((job, step), hosts)| {
        let hosts = host_list::compress(hosts.iter().copied());
        // The steps of some launchers are long names.
        let step = step.as_ref().filter(|_| names.len() < programs.len());
        let step = step.map_or(String::new(), |step| format!(" ({step})"));
        format!("{}{step} on {hosts}", name(job))
    });
    let texts: Vec<String> = texts.collect();
    let message = "several parallel programs of yours run on these nodes";
    Err(Failure::environment(format!("{message}: {}", listed(&texts, MOST_NAMES)))
        .with_hint("name the nodes of one of them, or its documents alone"))
}

fn name(job: &Option<String>) -> &str {
    job.as_deref().unwrap_or("processes without a launcher")
}

#[cfg(test)]
mod tests {
    use crate::process::{Activity, Holdings};

    use super::*;

    /// Returns what was read on a node: the program of this job and step, and a process.
    fn node(job: &str, step: &str, pid: u32) -> NodeReading {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let rank = RankState {
            call: None,
            rank: Some(pid),
            pid,
            host: None,
            name: "app".into(),
            activity: Activity::Runs,
            wait_channel: None,
            system_call: None,
            other_threads: BTreeMap::new(),
            tracer: None,
            holdings: Holdings::default(),
        };
        NodeReading {
            job: text(job).map(|job| format!("Open MPI job {job}")),
            job_id: text(job),
            step: text(step),
            ranks: vec![rank],
            seconds: 8.0,
            ..NodeReading::default()
        }
    }

    fn all(
        nodes: Vec<(&str, Result<NodeReading, &str>)>,
        own: &str,
    ) -> Result<NodeReading, String> {
        let nodes = nodes.into_iter();
        let answers = nodes.map(|(host, node)| (host.to_owned(), node.map_err(str::to_owned)));
        let own = Some(own).filter(|own| !own.is_empty());
        merged(answers.collect(), own).map_err(|failure| failure.message())
    }

    fn pids(node: &NodeReading) -> Vec<u32> {
        node.ranks.iter().map(|rank| rank.pid).collect()
    }

    #[test]
    fn nodes_without_answer_are_named() {
        let nodes = vec![
            ("n3", Err("down")),
            ("n1", Ok(node("7", "a", 1))),
            ("n4", Err("down")),
            ("n5", Err("no rank")),
            ("n2", Ok(node("7", "a", 2))),
        ];
        let found = all(nodes, "").unwrap();
        assert_eq!((pids(&found), found.host.as_str()), (vec![1, 2], "2 of 5 nodes"));
        let texts = found.without_answer.iter();
        let texts: Vec<_> = texts.map(|group| (&*group.nodes, group.count, &*group.why)).collect();
        assert_eq!(texts, [("n[3-4]", 2, "down"), ("n5", 1, "no rank")]);
        assert_eq!((found.seconds, found.job_id.as_deref()), (8.0, Some("7")));
        assert!(found.is_merged() && !node("7", "a", 1).is_merged());
        let failure = all(vec![("n3", Err("down")), ("n4", Err("down"))], "").unwrap_err();
        assert_eq!(failure, "no node shows a rank of the job: n[3-4]: down");
    }

    #[test]
    fn ranks_of_two_programs_do_not_wait_for_each_other() {
        let two_jobs = || vec![("n1", Ok(node("7", "a", 1))), ("n2", Ok(node("8", "a", 2)))];
        let failure = all(two_jobs(), "").unwrap_err();
        let programs = "Open MPI job 7 on n1, Open MPI job 8 on n2";
        assert!(failure.ends_with(&format!("run on these nodes: {programs}")), "{failure}");
        // The number of a batch job that none of them has decides nothing.
        assert!(all(two_jobs(), "9").is_err());
        let own = all(two_jobs(), "8").unwrap();
        assert_eq!((pids(&own), own.host.as_str()), (vec![2], "1 of 2 nodes"));
        let other = &own.without_answer[0];
        let why = "no rank of job 8, but of Open MPI job 7";
        assert_eq!((&*other.nodes, &*other.why), ("n1", why));
        let two_steps = vec![("n1", Ok(node("7", "a", 1))), ("n2", Ok(node("7", "b", 2)))];
        let failure = all(two_steps, "7").unwrap_err();
        assert!(
            failure.ends_with("Open MPI job 7 (a) on n1, Open MPI job 7 (b) on n2"),
            "{failure}"
        );
        let without = vec![("n1", Ok(node("", "", 1))), ("n2", Ok(node("", "", 2)))];
        assert_eq!(pids(&all(without, "7").unwrap()), [1, 2]);
    }

    #[test]
    fn node_counts_once() {
        let nodes = vec![
            ("n1", Ok(node("7", "a", 1))),
            ("n1", Ok(node("7", "a", 1))),
            ("n2", Ok(node("7", "a", 1))),
        ];
        let found = all(nodes, "").unwrap();
        let names: Vec<_> = found.ranks.iter().map(|rank| rank.host.as_deref()).collect();
        assert_eq!((names, found.host.as_str()), (vec![Some("n1"), Some("n2")], "2 nodes"));
    }
}
