//! Mapped memory and fork(2): a child reads its own copy (libcxi.md 1).

use crate::driver::prelude::*;

#[test]
fn child_reads_its_copy_of_mapped_memory() {
    alone!();
    // The kernel copies on fork, so these variables hide nothing from children.
    for variable in ["CXI_FORK_SAFE", "CXI_FORK_SAFE_HP"] {
        set(variable, "1");
        let (mut rig, source, sink) = Rig::with_target();
        assert!(call!(cxil_is_copy_on_fork()));
        source.pages.fill(7);
        let put = rig.dma_put(&source, 0, 2000, |_| {});
        assert_eq!(rig.code(&put), C_RC_OK);
        in_child(|| {
            let inherited = sink.pages.is(0, 2000, 7);
            sink.pages.fill(9);
            inherited && source.pages.is(0, PAGE, 7)
        });
        // The pages of the parent stay with its NIC.
        source.pages.fill(8);
        assert_eq!(rig.code(&put), C_RC_OK);
        assert!(sink.pages.is(0, 2000, 8) && sink.pages.is(2000, 96, 0));
    }
}
