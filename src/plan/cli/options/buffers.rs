//! The options of the data buffers.

use super::tool_option::{Governs, ToolOption};
use crate::cli::usage::{Completion, Value};
use crate::cli::values::{HUGE_PAGES, gpu_index, huge_page, names, set_lists, text, words};
use crate::run_options::MAX_ALIGNMENT;
use crate::tool::Opt;
use cxi::gpu::GpuType;
use facts::number::bytes_within;
use node::gpu;

/// All of them, in the order of the help text.
pub(super) const OPTIONS: &[ToolOption] = &[
    ToolOption {
        id: Opt::BufSz,
        short: None,
        long: "buf-sz",
        value: Some(Value::new("BUF_SIZE", Completion::Nothing)),
        governs: Governs::Run,
        legacy: true,
        text: |tool| {
            let default = tool.defaults.lists.map_or(0, |lists| lists.max_buffer);
            format!(
                "Largest buffer in bytes, such as 64M; longer lists reuse it from the start \
                 (default: {default})\n\n\
                 BUF_SIZE may have K, M or G as in --size. The buffer is smaller if all \
                 operations of a list, each aligned to BUF_ALIGN, fit into less."
            )
        },
        set: |typed, value| {
            let max_buffer = bytes_within(text(value)?, 1..=u64::MAX)?;
            set_lists(typed, |lists| lists.max_buffer = max_buffer)
        },
    },
    ToolOption {
        id: Opt::BufAlign,
        short: None,
        long: "buf-align",
        value: Some(Value::new("BUF_ALIGN", Completion::Nothing)),
        governs: Governs::Run,
        legacy: true,
        text: |tool| {
            let default = tool.defaults.lists.map_or(0, |lists| lists.alignment);
            format!(
                "Spacing of operations in the buffers in bytes (default: {default})\n\n\
                 BUF_ALIGN may have K, M or G as in --size; at most 4 GiB."
            )
        },
        set: |typed, value| {
            let alignment = bytes_within(text(value)?, 1..=MAX_ALIGNMENT)?;
            set_lists(typed, |lists| lists.alignment = alignment)
        },
    },
    ToolOption {
        id: Opt::UseHp,
        short: None,
        long: "use-hp",
        value: Some(Value::new("SIZE", Completion::Words(|| names(&HUGE_PAGES)))),
        governs: Governs::Run,
        legacy: true,
        text: |_| {
            "Huge pages for the data buffers: 2M or 1G (default: ordinary pages)\n\n\
             Both sides use them. The pages must have been reserved on both nodes; before \
             anything is allocated, the tool compares the number of pages that it needs with the \
             number that is free."
                .into()
        },
        set: |typed, value| {
            typed.run.huge_page = Some(huge_page(text(value)?).ok_or("expected 2M or 1G")?);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::TxGpu,
        short: Some('t'),
        long: "tx-gpu",
        value: Some(Value::new("GPU", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: true,
        text: |tool| {
            let implied = if tool.takes(Opt::NoIdc) { "; implies --no-idc" } else { "" };
            format!(
                "GPU that holds the transmit buffer of this side (default: system \
                 memory){implied}\n\n\
                 0 is the first GPU of its type. The other side chooses its own buffers. Data in \
                 GPU memory is never part of the command itself."
            )
        },
        set: |typed, value| {
            typed.gpus.tx = Some(gpu_index(value)?);
            // The CPU cannot read GPU memory, and so cannot put the data into the command.
            typed.run.use_idc = false;
            Ok(())
        },
    },
    ToolOption {
        id: Opt::RxGpu,
        short: Some('r'),
        long: "rx-gpu",
        value: Some(Value::new("GPU", Completion::Nothing)),
        governs: Governs::ThisProcess,
        legacy: true,
        text: |_| {
            "GPU that holds the receive buffer of this side (default: system memory)\n\n\
             0 is the first GPU of its type."
                .into()
        },
        set: |typed, value| {
            typed.gpus.rx = Some(gpu_index(value)?);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::GpuType,
        short: Some('g'),
        long: "gpu-type",
        value: Some(Value::new("TYPE", Completion::Words(|| names(&GpuType::ALL)))),
        governs: Governs::ThisProcess,
        legacy: true,
        text: |_| {
            "AMD, NVIDIA or INTEL (default: first type found)\n\n\
             A type is found if the machine has a GPU of this type and its runtime (HIP, CUDA, \
             Level Zero)."
                .into()
        },
        set: |typed, value| {
            typed.gpus.kind = Some(gpu::named(text(value)?).ok_or(gpu::GPU_TYPES)?);
            Ok(())
        },
    },
    ToolOption {
        id: Opt::GpuMap,
        short: None,
        long: "gpu-map",
        value: Some(Value::new("WAY", Completion::Words(|| words(&gpu::MAP_NAMES)))),
        governs: Governs::ThisProcess,
        legacy: false,
        text: |_| {
            "How the NIC reaches GPU memory: peer, dmabuf or auto (default: auto, the vendor's \
             usual way first)\n\n\
             'peer' is the peer-to-peer module of the vendor (nvidia-peermem, amdgpu), 'dmabuf' a \
             dma-buf that the runtime of the GPU exports. The usual way is 'peer' for AMD and \
             NVIDIA, 'dmabuf' for INTEL; 'auto' takes the other way if the driver refuses that \
             one. Libraries of a job may use another way than the legacy tools."
                .into()
        },
        set: |typed, value| {
            let name = text(value)?;
            let found = gpu::MAP_NAMES.iter().find(|(other, _)| *other == name);
            typed.gpus.map = found.ok_or(gpu::MAP_WAYS)?.1;
            Ok(())
        },
    },
];
