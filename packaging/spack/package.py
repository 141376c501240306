# Checked by Python's compiler only: nobody has run Spack on this recipe.
#
# It builds the tarball of packaging/make-packages, which contains all crates. Spack expects the
# tarball in the working directory, because it is not published:
#
#   spack install --no-checksum cxidiag
import os

from spack.package import *


class Cxidiag(Package):
    """Latency and bandwidth diagnostics for HPE Slingshot NICs.

    The program opens libcxi when it starts to measure: libcxi.so.1 of the machine, or the library
    that CXIDIAG_LIBCXI names.
    """

    manual_download = True
    url = f"file://{os.getcwd()}/cxidiag-0.1.0.tar.xz"

    license("MIT OR Apache-2.0")

    version("0.1.0")

    variant("legacy_names", default=False, description="Put the legacy names into PATH")

    depends_on("c", type="build")
    depends_on("rust@1.88:", type="build")

    conflicts("platform=darwin")
    conflicts("platform=windows")

    def install(self, spec, prefix):
        Executable("packaging/build")()
        for package in ("cxidiag", "cxidiag-legacy-names", "cxidiag-softnic"):
            Executable("packaging/install")(package, "root")
        install_tree("root/usr", prefix)
        for licence in ("LICENSE-APACHE", "LICENSE-MIT", "vendor/LICENSE-THIRD-PARTY"):
            install(licence, prefix.share.doc.cxidiag)

    def setup_run_environment(self, env):
        env.set("CXI_SOFTNIC_LIBRARY_DIR", self.prefix.lib.cxidiag.softnic)
        if self.spec.satisfies("+legacy_names"):
            env.prepend_path("PATH", self.prefix.lib.cxidiag.legacy.bin)
