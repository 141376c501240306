use super::*;

use std::fs;

/// The values of these variables: `NAME=VALUE`, divided by blanks.
fn values(variables: &str) -> impl Fn(&str) -> Option<String> {
    move |name| {
        let mut pairs = variables.split_whitespace().filter_map(|v| v.split_once('='));
        pairs.find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
    }
}

fn find(variables: &str) -> Result<Option<LauncherTask>, String> {
    LauncherTask::find(values(variables))
}

const STEP: &str = "SLURM_JOB_ID=17 SLURM_STEP_ID=2 SLURM_PROCID=3 SLURM_STEP_NUM_TASKS=8 \
    SLURM_STEP_TASKS_PER_NODE=2(x4) SLURM_LOCALID=1 SLURM_NODEID=1 SLURMD_NODENAME=nid2 \
    SLURM_STEP_NODELIST=nid[1-4] SLURM_JOB_NODELIST=nid[0-9] ";

const BATCH_SCRIPT: &str = "SLURM_JOB_ID=17 SLURM_PROCID=0 SLURM_NODEID=0 SLURM_LOCALID=0 \
    SLURM_NTASKS=8 SLURM_JOB_NODELIST=nid[7-9] ";

const OPEN_MPI: &str = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 \
    OMPI_COMM_WORLD_LOCAL_RANK=1 PMIX_RANK=1 PMIX_NAMESPACE=4711 ";

const HYDRA: &str = "PMI_RANK=1 PMI_SIZE=4 PMI_FD=6 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2 \
    PMI_HOSTNAME=nid5 ";

const FLUX: &str =
    "FLUX_TASK_RANK=2 FLUX_JOB_SIZE=4 FLUX_TASK_LOCAL_ID=0 FLUX_JOB_ID=fX PMI_RANK=2 PMI_SIZE=4 ";

const PALS: &str = "PALS_RANKID=5 PMI_RANK=5 PMI_SIZE=6 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2 \
    PALS_NODEID=2 PALS_APID=uuid PBS_JOBID=9.head ";

#[test]
fn finds_innermost_launcher() {
    for (variables, source) in [
        (STEP.to_owned(), "rank 3 of 8 from Slurm (SLURM_PROCID)"),
        (OPEN_MPI.to_owned(), "rank 1 of 4 from Open MPI (OMPI_COMM_WORLD_RANK)"),
        (HYDRA.to_owned(), "rank 1 of 4 from Hydra (PMI_RANK)"),
        ("PMI_ID=1 PMI_PORT=h:1 PMI_SIZE=2".into(), "rank 1 of 2 from Hydra (PMI_ID)"),
        (FLUX.to_owned(), "rank 2 of 4 from Flux (FLUX_TASK_RANK)"),
        (PALS.to_owned(), "rank 5 of 6 from PALS (PALS_RANKID)"),
        // Slurm sets the variables of other launchers for plugins (--mpi=pmi2, pmix, cray_shasta).
        (STEP.to_owned() + "PMI_RANK=3 PMI_SIZE=8", "rank 3 of 8 from Slurm (SLURM_PROCID)"),
        (STEP.to_owned() + "PMIX_RANK=3", "rank 3 of 8 from Slurm (SLURM_PROCID)"),
        (
            STEP.to_owned() + "PMI_RANK=3 PMI_SIZE=8 PALS_RANKID=3 PALS_LOCAL_RANKID=1",
            "rank 3 of 8 from Slurm (SLURM_PROCID)",
        ),
        // In a batch script, and in a step.
        (BATCH_SCRIPT.to_owned() + OPEN_MPI, "rank 1 of 4 from Open MPI (OMPI_COMM_WORLD_RANK)"),
        (BATCH_SCRIPT.to_owned() + HYDRA, "rank 1 of 4 from Hydra (PMI_RANK)"),
        (STEP.to_owned() + OPEN_MPI, "rank 1 of 4 from Open MPI (OMPI_COMM_WORLD_RANK)"),
        (STEP.to_owned() + HYDRA, "rank 1 of 4 from Hydra (PMI_RANK)"),
        (STEP.to_owned() + FLUX, "rank 2 of 4 from Flux (FLUX_TASK_RANK)"),
        (STEP.to_owned() + PALS, "rank 5 of 6 from PALS (PALS_RANKID)"),
        (PALS.to_owned() + OPEN_MPI, "rank 1 of 4 from Open MPI (OMPI_COMM_WORLD_RANK)"),
        (PALS.to_owned() + FLUX, "rank 2 of 4 from Flux (FLUX_TASK_RANK)"),
        // The rank of the step may equal the rank of the task by chance.
        (
            STEP.to_owned() + "OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=8",
            "rank 3 of 8 from Open MPI (OMPI_COMM_WORLD_RANK)",
        ),
    ] {
        let task = find(&variables).unwrap().expect(&variables);
        assert_eq!(task.source(), source, "{variables}");
    }
}

#[test]
fn finds_no_task_without_launcher() {
    for variables in [
        "",
        BATCH_SCRIPT,
        "SLURM_JOB_ID=17 SLURM_STEP_ID=4294967290 SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 \
         SLURM_STEP_TASKS_PER_NODE=1",
        "PBS_JOBID=9.head PBS_ENVIRONMENT=PBS_BATCH",
        "SLURM_PROCID=",
    ] {
        assert_eq!(find(variables), Ok(None), "{variables}");
    }
}

#[test]
fn refuses_incomplete_and_contradictory_variables() {
    for (variables, refused) in [
        (
            "FLUX_TASK_RANK=1",
            "FLUX_TASK_RANK=1, but the number of processes is missing: FLUX_JOB_SIZE is not set",
        ),
        (
            "PMI_RANK=8 PMI_SIZE=8",
            "PMI_RANK=8: expected a decimal number from 0 to 7, because PMI_SIZE=8",
        ),
        ("PMI_RANK=0 PMI_SIZE=0", "PMI_SIZE=0: expected a decimal number from 1 to 16777216"),
        (
            "PMI_RANK=-1 PMI_SIZE=2",
            "PMI_RANK=-1: expected a decimal number from 0 to 1, because PMI_SIZE=2",
        ),
        (
            "PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=x",
            "MPI_LOCALRANKID=x: expected a decimal number from 0 to 16777216",
        ),
        ("PMIX_RANK=1", "PMIX_RANK is set, but no variable has the number of processes"),
    ] {
        assert_eq!(find(variables), Err(refused.into()), "{variables}");
    }
}

#[test]
fn reads_what_slurm_says_about_the_task() {
    let variables =
        STEP.to_owned() + "SLURM_JOB_END_TIME=1800000000 SLURM_TOPOLOGY_ADDR=s0.s4.nid2";
    let expected = LauncherTask {
        launcher: "Slurm",
        variable: "SLURM_PROCID",
        rank: 3,
        size: 8,
        local_rank: Some(1),
        local_size: Some(2),
        node_index: Some(1),
        node: Some("nid2".into()),
        job: Some("17".into()),
        step: Some("2".into()),
        end_of_job: Some(1_800_000_000),
        hosts: ["nid1", "nid1", "nid2", "nid2", "nid3", "nid3", "nid4", "nid4"]
            .map(str::to_owned)
            .to_vec(),
        topology: Some("s0.s4".into()),
    };
    assert_eq!(find(&variables), Ok(Some(expected)));
    // The list names the nodes, if the numbers of tasks do not fit.
    for counts in ["2(x3)", "2(x5)", "2(x3),1", "4(x2)", "x"] {
        let variables = STEP.replace("2(x4)", counts);
        let hosts = find(&variables).unwrap().unwrap().hosts;
        assert_eq!(hosts, ["nid1", "nid2", "nid3", "nid4"], "{counts}");
    }
    for (variables, local_size) in [
        (STEP.replace("2(x4)", "1,3,2,2"), Some(3)),
        (STEP.replace("2(x4)", "8"), None),
        (STEP.replace("2(x4)", "x"), None),
        ("PMI_RANK=1 PMI_SIZE=4 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=4".into(), Some(4)),
        ("PALS_RANKID=1 PMI_SIZE=4 PALS_LOCAL_SIZE=2".into(), Some(2)),
        ("PMI_RANK=1 PMI_SIZE=4".into(), None),
    ] {
        let task = find(&variables).unwrap().unwrap();
        assert_eq!(task.local_size, local_size, "{variables}");
    }
    for address in ["nid2", "s0.s4.nid3", ""] {
        let variables = format!("{STEP} SLURM_TOPOLOGY_ADDR={address}");
        assert_eq!(find(&variables).unwrap().unwrap().topology, None);
    }
}

#[test]
fn reads_job_step_and_hosts_of_other_launchers() {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), "nid7\nnid7\nnid8\n").unwrap();
    let node_file = format!("PBS_NODEFILE={}", file.path().display());
    for (variables, job, step, hosts) in [
        (OPEN_MPI.to_owned(), None, Some("4711"), &[][..]),
        (BATCH_SCRIPT.to_owned() + OPEN_MPI, Some("17"), Some("4711"), &["nid7", "nid8", "nid9"]),
        (FLUX.to_owned(), Some("fX"), None, &[]),
        (PALS.to_owned() + &node_file, Some("9.head"), Some("uuid"), &["nid7", "nid8"]),
    ] {
        let task = find(&variables).unwrap().unwrap();
        let found = (task.job.as_deref(), task.step.as_deref());
        assert_eq!(found, (job, step), "{variables}");
        assert_eq!(task.hosts, hosts, "{variables}");
    }
}

/// PBS_NODEFILE has full names where hosts call themselves by short ones.
#[test]
fn names_the_node_of_an_absent_task_whatever_the_form_of_names() {
    let hosts = ["N7.cluster.example", "n8.cluster.example", "n9.cluster.example"];
    let hosts = hosts.map(String::from);
    let joined = BTreeMap::from([(0, "n7"), (1, "N8.other.example")]);
    let nodes = nodes_of_tasks(3, &hosts, &joined);
    assert_eq!(nodes, ["n7", "N8.other.example", "n9.cluster.example"]);
}

#[test]
fn counts_the_nodes_of_a_step_or_of_its_job() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("nodes");
    fs::write(&file, "nid1\nnid1\nnid2.site\nnid2\nnid3\n").unwrap();
    let file = format!("PBS_JOBID=7 PBS_NODEFILE={}", file.display());
    for (variables, expected) in [
        ("", None),
        ("SLURM_JOB_NUM_NODES=4", Some(4)),
        ("SLURM_JOB_NUM_NODES=4 SLURM_STEP_NUM_NODES=1", Some(1)),
        ("SLURM_JOB_NODELIST=nid[1-5]", Some(5)),
        ("FLUX_JOB_NNODES=2 SLURM_JOB_NUM_NODES=4", Some(2)),
        ("SLURM_NNODES=x", None),
        (file.as_str(), Some(3)),
    ] {
        assert_eq!(node_count(values(variables)), expected, "{variables}");
    }
}
