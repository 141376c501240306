// Made by build.rs from cxi.h; not edited by hand.

#[repr(C)]
#[derive(Copy, Clone, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct __BindgenBitfieldUnit<Storage> {
    storage: Storage,
}
impl<Storage> __BindgenBitfieldUnit<Storage> {
    #[inline]
    pub const fn new(storage: Storage) -> Self {
        Self { storage }
    }
}
impl<Storage> __BindgenBitfieldUnit<Storage>
where
    Storage: AsRef<[u8]> + AsMut<[u8]>,
{
    #[inline]
    fn extract_bit(byte: u8, index: usize) -> bool {
        let bit_index = if cfg!(target_endian = "big") {
            7 - (index % 8)
        } else {
            index % 8
        };
        let mask = 1 << bit_index;
        byte & mask == mask
    }
    #[inline]
    pub fn get_bit(&self, index: usize) -> bool {
        debug_assert!(index / 8 < self.storage.as_ref().len());
        let byte_index = index / 8;
        let byte = self.storage.as_ref()[byte_index];
        Self::extract_bit(byte, index)
    }
    #[inline]
    pub unsafe fn raw_get_bit(this: *const Self, index: usize) -> bool {
        debug_assert!(index / 8 < core::mem::size_of::<Storage>());
        let byte_index = index / 8;
        let byte = unsafe {
            *(core::ptr::addr_of!((*this).storage) as *const u8)
                .offset(byte_index as isize)
        };
        Self::extract_bit(byte, index)
    }
    #[inline]
    fn change_bit(byte: u8, index: usize, val: bool) -> u8 {
        let bit_index = if cfg!(target_endian = "big") {
            7 - (index % 8)
        } else {
            index % 8
        };
        let mask = 1 << bit_index;
        if val { byte | mask } else { byte & !mask }
    }
    #[inline]
    pub fn set_bit(&mut self, index: usize, val: bool) {
        debug_assert!(index / 8 < self.storage.as_ref().len());
        let byte_index = index / 8;
        let byte = &mut self.storage.as_mut()[byte_index];
        *byte = Self::change_bit(*byte, index, val);
    }
    #[inline]
    pub unsafe fn raw_set_bit(this: *mut Self, index: usize, val: bool) {
        debug_assert!(index / 8 < core::mem::size_of::<Storage>());
        let byte_index = index / 8;
        let byte = unsafe {
            (core::ptr::addr_of_mut!((*this).storage) as *mut u8)
                .offset(byte_index as isize)
        };
        unsafe { *byte = Self::change_bit(*byte, index, val) };
    }
    #[inline]
    pub fn get(&self, bit_offset: usize, bit_width: u8) -> u64 {
        debug_assert!(bit_width <= 64);
        debug_assert!(bit_offset / 8 < self.storage.as_ref().len());
        debug_assert!(
            (bit_offset + (bit_width as usize)) / 8 <= self.storage.as_ref().len(),
        );
        let mut val = 0;
        for i in 0..(bit_width as usize) {
            if self.get_bit(i + bit_offset) {
                let index = if cfg!(target_endian = "big") {
                    bit_width as usize - 1 - i
                } else {
                    i
                };
                val |= 1 << index;
            }
        }
        val
    }
    #[inline]
    pub unsafe fn raw_get(this: *const Self, bit_offset: usize, bit_width: u8) -> u64 {
        debug_assert!(bit_width <= 64);
        debug_assert!(bit_offset / 8 < core::mem::size_of::<Storage>());
        debug_assert!(
            (bit_offset + (bit_width as usize)) / 8 <= core::mem::size_of::<Storage>(),
        );
        let mut val = 0;
        for i in 0..(bit_width as usize) {
            if unsafe { Self::raw_get_bit(this, i + bit_offset) } {
                let index = if cfg!(target_endian = "big") {
                    bit_width as usize - 1 - i
                } else {
                    i
                };
                val |= 1 << index;
            }
        }
        val
    }
    #[inline]
    pub fn set(&mut self, bit_offset: usize, bit_width: u8, val: u64) {
        debug_assert!(bit_width <= 64);
        debug_assert!(bit_offset / 8 < self.storage.as_ref().len());
        debug_assert!(
            (bit_offset + (bit_width as usize)) / 8 <= self.storage.as_ref().len(),
        );
        for i in 0..(bit_width as usize) {
            let mask = 1 << i;
            let val_bit_is_set = val & mask == mask;
            let index = if cfg!(target_endian = "big") {
                bit_width as usize - 1 - i
            } else {
                i
            };
            self.set_bit(index + bit_offset, val_bit_is_set);
        }
    }
    #[inline]
    pub unsafe fn raw_set(this: *mut Self, bit_offset: usize, bit_width: u8, val: u64) {
        debug_assert!(bit_width <= 64);
        debug_assert!(bit_offset / 8 < core::mem::size_of::<Storage>());
        debug_assert!(
            (bit_offset + (bit_width as usize)) / 8 <= core::mem::size_of::<Storage>(),
        );
        for i in 0..(bit_width as usize) {
            let mask = 1 << i;
            let val_bit_is_set = val & mask == mask;
            let index = if cfg!(target_endian = "big") {
                bit_width as usize - 1 - i
            } else {
                i
            };
            unsafe { Self::raw_set_bit(this, index + bit_offset, val_bit_is_set) };
        }
    }
}
#[repr(C)]
#[derive(Default)]
pub struct __IncompleteArrayField<T>(::core::marker::PhantomData<T>, [T; 0]);
impl<T> __IncompleteArrayField<T> {
    #[inline]
    pub const fn new() -> Self {
        __IncompleteArrayField(::core::marker::PhantomData, [])
    }
    #[inline]
    pub fn as_ptr(&self) -> *const T {
        self as *const _ as *const T
    }
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut T {
        self as *mut _ as *mut T
    }
    #[inline]
    pub unsafe fn as_slice(&self, len: usize) -> &[T] {
        ::core::slice::from_raw_parts(self.as_ptr(), len)
    }
    #[inline]
    pub unsafe fn as_mut_slice(&mut self, len: usize) -> &mut [T] {
        ::core::slice::from_raw_parts_mut(self.as_mut_ptr(), len)
    }
}
impl<T> ::core::fmt::Debug for __IncompleteArrayField<T> {
    fn fmt(&self, fmt: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
        fmt.write_str("__IncompleteArrayField")
    }
}
pub const CXIL_DEVNAME_MAX: u32 = 13;
pub const CXIL_DRVNAME_MAX: u32 = 8;
pub const CXIL_FRUDESC_MAX: u32 = 16;
pub const CXI_MAX_CQ_COUNT: u32 = 65536;
pub const CXI_SVC_MAX_MEMBERS: u32 = 2;
pub const CXI_SVC_MAX_VNIS: u32 = 4;
pub const CXI_DEFAULT_SVC_ID: u32 = 1;
pub const C_CQ_CMD_SIZE: u32 = 64;
pub const C_CQ_FIRST_WR_PTR: u32 = 4;
pub const C_CQ_FIRST_WR_PTR_32: u32 = 8;
pub const C_EE_CFG_ECB_SIZE: u32 = 64;
pub const C_EQ_RESERVED_EVENT_SLOTS: u32 = 2;
pub const CXI_DFA_EP_WIDTH: u32 = 12;
pub const CXI_DFA_EXT_WIDTH: u32 = 5;
pub const CXI_EP_WIDTH: u32 = 17;
pub const CXI_DFA_EP_MASK: u32 = 4095;
pub const CXI_DFA_EXT_MASK: u32 = 31;
pub const CXI_MATCH_ID_ANY: u32 = 4294967295;
pub const C_DFA_NIC_BITS: u32 = 20;
pub const C_DFA_PID_BITS_MIN: u32 = 6;
pub const C_DFA_PID_BITS_MAX: u32 = 9;
pub const C_PID_ANY: u32 = 511;
pub const C_NID_ANY: u32 = 1048575;
pub const C_NUM_TRANSMIT_CQS: u32 = 1024;
pub const C_NUM_TARGET_CQS: u32 = 512;
pub const C_NUM_EQS: u32 = 2048;
pub const C_NUM_CTS: u32 = 2048;
pub const C_NUM_PTLTES: u32 = 2048;
pub const C_NUM_TLES: u32 = 2048;
pub const C_NUM_ACS: u32 = 1024;
pub const C_NUM_LACS: u32 = 8;
pub const C_NUM_RGIDS: u32 = 256;
pub const C_COMM_PROF_PER_CQ: u32 = 16;
pub const C_PE_COUNT: u32 = 4;
pub const C_EQ_NONE: u32 = 0;
pub const C_CT_NONE: u32 = 0;
pub const C_AC_NONE: u32 = 0;
pub const C_PLATFORM_ASIC: u32 = 0;
pub const C_PLATFORM_NETSIM: u32 = 1;
pub const C_PLATFORM_Z1: u32 = 2;
pub const C_PLATFORM_FPGA: u32 = 3;
pub const C_ATU_ERR_ELAPSED_TIME: u32 = 134217984;
pub const C_CQ_ERR_ELAPSED_TIME: u32 = 256;
pub const C_EE_ERR_ELAPSED_TIME: u32 = 142606592;
pub const C_HNI_ERR_ELAPSED_TIME: u32 = 16777472;
pub const C_HNI_PML_ERR_ELAPSED_TIME: u32 = 25166080;
pub const C_IXE_ERR_ELAPSED_TIME: u32 = 41943296;
pub const C_LPE_ERR_ELAPSED_TIME: u32 = 159383808;
pub const C_MB_ERR_ELAPSED_TIME: u32 = 268435712;
pub const C_MST_ERR_ELAPSED_TIME: u32 = 167772416;
pub const C_OXE_ERR_ELAPSED_TIME: u32 = 176161024;
pub const C_PARBS_ERR_ELAPSED_TIME: u32 = 150995200;
pub const C_PCT_ERR_ELAPSED_TIME: u32 = 8388864;
pub const C_PI_ERR_ELAPSED_TIME: u32 = 276824320;
pub const C_PI_IPD_ERR_ELAPSED_TIME: u32 = 285212928;
pub const C_RMU_ERR_ELAPSED_TIME: u32 = 33554688;
pub const C1_CNTR_COUNT: u32 = 1426;
pub const C1_CNTR_SIZE: u32 = 2528;
pub const C_MAX_IDC_PAYLOAD_RES: u32 = 224;
pub const C_MAX_IDC_PAYLOAD_UNR: u32 = 192;
pub const C_LE_EVENT_CT_BYTES: u32 = 1;
pub const C_LE_EVENT_CT_OVERFLOW: u32 = 2;
pub const C_LE_EVENT_CT_COMM: u32 = 4;
pub const C_LE_EVENT_UNLINK_DISABLE: u32 = 8;
pub const C_LE_EVENT_SUCCESS_DISABLE: u32 = 16;
pub const C_LE_EVENT_COMM_DISABLE: u32 = 32;
pub const C_LE_EVENT_LINK_DISABLE: u32 = 64;
pub const C_LE_UNRESTRICTED_END_RO: u32 = 128;
pub const C_LE_UNRESTRICTED_BODY_RO: u32 = 256;
pub const C_LE_UNEXPECTED_HDR_DISABLE: u32 = 512;
pub const C_LE_USE_ONCE: u32 = 1024;
pub const C_LE_NO_TRUNCATE: u32 = 2048;
pub const C_LE_MANAGE_LOCAL: u32 = 4096;
pub const C_LE_OP_GET: u32 = 8192;
pub const C_LE_OP_PUT: u32 = 16384;
pub const C_LE_RESTART_SEQ: u32 = 32768;
pub type __time_t = ::core::ffi::c_long;
pub type __syscall_slong_t = ::core::ffi::c_long;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct timespec {
    pub tv_sec: __time_t,
    pub tv_nsec: __syscall_slong_t,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of timespec"][::core::mem::size_of::<timespec>() - 16usize];
    ["Alignment of timespec"][::core::mem::align_of::<timespec>() - 8usize];
    [
        "Offset of field: timespec::tv_sec",
    ][::core::mem::offset_of!(timespec, tv_sec) - 0usize];
    [
        "Offset of field: timespec::tv_nsec",
    ][::core::mem::offset_of!(timespec, tv_nsec) - 8usize];
};
pub const CXI_TC_DEDICATED_ACCESS: cxi_traffic_class = 0;
pub const CXI_TC_LOW_LATENCY: cxi_traffic_class = 1;
pub const CXI_TC_BULK_DATA: cxi_traffic_class = 2;
pub const CXI_TC_BEST_EFFORT: cxi_traffic_class = 3;
pub const CXI_TC_ETH: cxi_traffic_class = 4;
pub const CXI_TC_MAX: cxi_traffic_class = 5;
pub type cxi_traffic_class = ::core::ffi::c_uint;
pub const CXI_TC_TYPE_DEFAULT: cxi_traffic_class_type = 0;
pub const CXI_TC_TYPE_HRP: cxi_traffic_class_type = 1;
pub const CXI_TC_TYPE_RESTRICTED: cxi_traffic_class_type = 2;
pub const CXI_TC_TYPE_COLL_LEAF: cxi_traffic_class_type = 3;
pub const CXI_TC_TYPE_MAX: cxi_traffic_class_type = 4;
pub type cxi_traffic_class_type = ::core::ffi::c_uint;
pub const TRIG_LCID: cxi_trig_cp = 0;
pub const NON_TRIG_LCID: cxi_trig_cp = 1;
pub const ANY_LCID: cxi_trig_cp = 2;
pub type cxi_trig_cp = ::core::ffi::c_uint;
pub const CXI_CQ_UPDATE_ALWAYS: cxi_cq_update_policy = 0;
pub const CXI_CQ_UPDATE_HIGH_FREQ_EMPTY: cxi_cq_update_policy = 1;
pub const CXI_CQ_UPDATE_LOW_FREQ_EMPTY: cxi_cq_update_policy = 2;
pub const CXI_CQ_UPDATE_LOW_FREQ: cxi_cq_update_policy = 3;
pub type cxi_cq_update_policy = ::core::ffi::c_uint;
pub const CXI_MAP_PIN: cxi_atu_map_flags = 1;
pub const CXI_MAP_ATS: cxi_atu_map_flags = 2;
pub const CXI_MAP_WRITE: cxi_atu_map_flags = 4;
pub const CXI_MAP_READ: cxi_atu_map_flags = 8;
pub const CXI_MAP_FAULT: cxi_atu_map_flags = 16;
pub const CXI_MAP_NOCACHE: cxi_atu_map_flags = 32;
pub const CXI_MAP_USER_ADDR: cxi_atu_map_flags = 64;
pub const CXI_MAP_ATS_PT: cxi_atu_map_flags = 128;
pub const CXI_MAP_ATS_DYN: cxi_atu_map_flags = 256;
pub const CXI_MAP_DEVICE: cxi_atu_map_flags = 512;
pub const CXI_MAP_UNUSED: cxi_atu_map_flags = 1024;
pub const CXI_MAP_ALLOC_MD: cxi_atu_map_flags = 2048;
pub const CXI_MAP_PREFETCH: cxi_atu_map_flags = 4096;
pub type cxi_atu_map_flags = ::core::ffi::c_uint;
pub const CXI_RSRC_TYPE_PTE: cxi_rsrc_type = 0;
pub const CXI_RSRC_TYPE_TXQ: cxi_rsrc_type = 1;
pub const CXI_RSRC_TYPE_TGQ: cxi_rsrc_type = 2;
pub const CXI_RSRC_TYPE_EQ: cxi_rsrc_type = 3;
pub const CXI_RSRC_TYPE_CT: cxi_rsrc_type = 4;
pub const CXI_RSRC_TYPE_LE: cxi_rsrc_type = 5;
pub const CXI_RSRC_TYPE_TLE: cxi_rsrc_type = 6;
pub const CXI_RSRC_TYPE_AC: cxi_rsrc_type = 7;
pub const CXI_RSRC_TYPE_MAX: cxi_rsrc_type = 8;
pub type cxi_rsrc_type = ::core::ffi::c_uint;
pub const CXI_SVC_MEMBER_IGNORE: cxi_svc_member_type = 0;
pub const CXI_SVC_MEMBER_UID: cxi_svc_member_type = 1;
pub const CXI_SVC_MEMBER_GID: cxi_svc_member_type = 2;
pub const CXI_SVC_MEMBER_NET_NS: cxi_svc_member_type = 3;
pub const CXI_SVC_MEMBER_MAX: cxi_svc_member_type = 4;
pub type cxi_svc_member_type = ::core::ffi::c_uint;
pub const CASSINI_1: cassini_version = 16;
pub const CASSINI_2: cassini_version = 32;
pub const CASSINI_1_0: cassini_version = 17;
pub const CASSINI_1_1: cassini_version = 18;
pub const CASSINI_2_0: cassini_version = 33;
pub type cassini_version = ::core::ffi::c_uint;
pub const CASSINI_MIX: system_type_identifier = 0;
pub const CASSINI_1_ONLY: system_type_identifier = 1;
pub const CASSINI_2_ONLY: system_type_identifier = 2;
pub type system_type_identifier = ::core::ffi::c_uint;
pub const CXI_CQ_USER: _bindgen_ty_1 = 1;
pub const CXI_CQ_IS_TX: _bindgen_ty_1 = 2;
pub const CXI_CQ_TX_ETHERNET: _bindgen_ty_1 = 4;
pub const CXI_CQ_TX_WITH_TRIG_CMDS: _bindgen_ty_1 = 8;
pub type _bindgen_ty_1 = ::core::ffi::c_uint;
pub const CXI_EQ_USER: _bindgen_ty_2 = 1;
pub const CXI_EQ_PASSTHROUGH: _bindgen_ty_2 = 2;
pub const CXI_EQ_INIT_LONG: _bindgen_ty_2 = 4;
pub const CXI_EQ_TGT_LONG: _bindgen_ty_2 = 8;
pub const CXI_EQ_DROP_STATUS_DISABLE: _bindgen_ty_2 = 16;
pub const CXI_EQ_TIMESTAMP_EVENTS: _bindgen_ty_2 = 32;
pub const CXI_EQ_EC_DISABLE: _bindgen_ty_2 = 64;
pub const CXI_EQ_REGISTER_PCT: _bindgen_ty_2 = 128;
pub type _bindgen_ty_2 = ::core::ffi::c_uint;
pub const C_CMD_TYPE_IDC: c_cmd_type = 0;
pub const C_CMD_TYPE_DMA: c_cmd_type = 1;
pub const C_CMD_TYPE_CT: c_cmd_type = 2;
pub const C_CMD_TYPE_CQ: c_cmd_type = 3;
pub type c_cmd_type = ::core::ffi::c_uint;
pub const C_CMD_SIZE_32B: c_cmd_size = 0;
pub const C_CMD_SIZE_64B: c_cmd_size = 1;
pub const C_CMD_SIZE_128B: c_cmd_size = 2;
pub const C_CMD_SIZE_256B: c_cmd_size = 3;
pub type c_cmd_size = ::core::ffi::c_uint;
pub const C_CMD_NOOP: c_dma_op = 0;
pub const C_CMD_PUT: c_dma_op = 1;
pub const C_CMD_GET: c_dma_op = 2;
pub const C_CMD_RENDEZVOUS_PUT: c_dma_op = 3;
pub const C_CMD_ATOMIC: c_dma_op = 4;
pub const C_CMD_FETCHING_ATOMIC: c_dma_op = 5;
pub const C_CMD_ETHERNET_TX: c_dma_op = 6;
pub const C_CMD_SMALL_MESSAGE: c_dma_op = 7;
pub const C_CMD_NOMATCH_PUT: c_dma_op = 8;
pub const C_CMD_NOMATCH_GET: c_dma_op = 9;
pub const C_CMD_CSTATE: c_dma_op = 10;
pub const C_CMD_CLOSE: c_dma_op = 11;
pub const C_CMD_CLEAR: c_dma_op = 12;
pub const C_CMD_REDUCTION: c_dma_op = 13;
pub type c_dma_op = ::core::ffi::c_uint;
pub const C_AMO_OP_MIN: c_atomic_op = 0;
pub const C_AMO_OP_MAX: c_atomic_op = 1;
pub const C_AMO_OP_SUM: c_atomic_op = 2;
pub const C_AMO_OP_LOR: c_atomic_op = 4;
pub const C_AMO_OP_LAND: c_atomic_op = 5;
pub const C_AMO_OP_BOR: c_atomic_op = 6;
pub const C_AMO_OP_BAND: c_atomic_op = 7;
pub const C_AMO_OP_LXOR: c_atomic_op = 8;
pub const C_AMO_OP_BXOR: c_atomic_op = 9;
pub const C_AMO_OP_SWAP: c_atomic_op = 10;
pub const C_AMO_OP_CSWAP: c_atomic_op = 11;
pub const C_AMO_OP_AXOR: c_atomic_op = 12;
pub type c_atomic_op = ::core::ffi::c_uint;
pub const C_AMO_OP_CSWAP_EQ: c_cswap_op = 0;
pub const C_AMO_OP_CSWAP_NE: c_cswap_op = 1;
pub const C_AMO_OP_CSWAP_LE: c_cswap_op = 2;
pub const C_AMO_OP_CSWAP_LT: c_cswap_op = 3;
pub const C_AMO_OP_CSWAP_GE: c_cswap_op = 4;
pub const C_AMO_OP_CSWAP_GT: c_cswap_op = 5;
pub type c_cswap_op = ::core::ffi::c_uint;
pub const C_AMO_TYPE_INT8_T: c_atomic_type = 0;
pub const C_AMO_TYPE_UINT8_T: c_atomic_type = 1;
pub const C_AMO_TYPE_INT16_T: c_atomic_type = 2;
pub const C_AMO_TYPE_UINT16_T: c_atomic_type = 3;
pub const C_AMO_TYPE_INT32_T: c_atomic_type = 4;
pub const C_AMO_TYPE_UINT32_T: c_atomic_type = 5;
pub const C_AMO_TYPE_INT64_T: c_atomic_type = 6;
pub const C_AMO_TYPE_UINT64_T: c_atomic_type = 7;
pub const C_AMO_TYPE_FLOAT_T: c_atomic_type = 8;
pub const C_AMO_TYPE_FLOAT_COMPLEX_T: c_atomic_type = 9;
pub const C_AMO_TYPE_DOUBLE_T: c_atomic_type = 10;
pub const C_AMO_TYPE_DOUBLE_COMPLEX_T: c_atomic_type = 11;
pub const C_AMO_TYPE_UINT128_T: c_atomic_type = 12;
pub type c_atomic_type = ::core::ffi::c_uint;
pub const C_CMD_CT_NOOP: c_ct_op = 0;
pub const C_CMD_CT_SET: c_ct_op = 1;
pub const C_CMD_CT_GET: c_ct_op = 2;
pub const C_CMD_CT_INC: c_ct_op = 3;
pub const C_CMD_CT_CANCEL: c_ct_op = 4;
pub const C_CMD_CT_TRIG_DMA: c_ct_op = 5;
pub const C_CMD_CT_TRIG_SET: c_ct_op = 6;
pub const C_CMD_CT_TRIG_INC: c_ct_op = 7;
pub const C_CMD_CT_TRIG_EVENT: c_ct_op = 8;
pub type c_ct_op = ::core::ffi::c_uint;
pub const C_CMD_CQ_NOOP: c_cq_op = 0;
pub const C_CMD_CQ_FENCE: c_cq_op = 1;
pub const C_CMD_CQ_LCID: c_cq_op = 2;
pub type c_cq_op = ::core::ffi::c_uint;
pub const C_CMD_TGT_APPEND: c_tgt_op = 8;
pub const C_CMD_TGT_SEARCH: c_tgt_op = 9;
pub const C_CMD_TGT_SEARCH_AND_DELETE: c_tgt_op = 10;
pub const C_CMD_TGT_UNLINK: c_tgt_op = 11;
pub const C_CMD_TGT_SETSTATE: c_tgt_op = 12;
pub type c_tgt_op = ::core::ffi::c_uint;
pub const C_PTL_LIST_PRIORITY: c_ptl_list = 0;
pub const C_PTL_LIST_OVERFLOW: c_ptl_list = 1;
pub const C_PTL_LIST_REQUEST: c_ptl_list = 2;
pub const C_PTL_LIST_UNEXPECTED: c_ptl_list = 3;
pub type c_ptl_list = ::core::ffi::c_uint;
pub const C_PTLTE_RESET: c_ptlte_state = 0;
pub const C_PTLTE_DISABLED: c_ptlte_state = 1;
pub const C_PTLTE_ENABLED: c_ptlte_state = 2;
pub const C_PTLTE_SOFTWARE_MANAGED: c_ptlte_state = 3;
pub const C_PTLTE_ETHERNET: c_ptlte_state = 4;
pub type c_ptlte_state = ::core::ffi::c_uint;
pub const C_SC_FC_EQ_FULL: c_sc_reason = 0;
pub const C_SC_FC_NO_MATCH: c_sc_reason = 1;
pub const C_SC_FC_UNEXPECTED_FAIL: c_sc_reason = 2;
pub const C_SC_FC_REQUEST_FULL: c_sc_reason = 3;
pub const C_SC_SM_UNEXPECTED_FAIL: c_sc_reason = 4;
pub const C_SC_SM_APPEND_FAIL: c_sc_reason = 5;
pub const C_SC_DIS_UNCOR: c_sc_reason = 6;
pub type c_sc_reason = ::core::ffi::c_uint;
pub const C_EVENT_SIZE_NO_EVENT: c_event_size = 0;
pub const C_EVENT_SIZE_16_BYTE: c_event_size = 1;
pub const C_EVENT_SIZE_32_BYTE: c_event_size = 2;
pub const C_EVENT_SIZE_64_BYTE: c_event_size = 3;
pub type c_event_size = ::core::ffi::c_uint;
pub const C_EVENT_PUT: c_event_type = 0;
pub const C_EVENT_GET: c_event_type = 1;
pub const C_EVENT_ATOMIC: c_event_type = 2;
pub const C_EVENT_FETCH_ATOMIC: c_event_type = 3;
pub const C_EVENT_PUT_OVERFLOW: c_event_type = 4;
pub const C_EVENT_GET_OVERFLOW: c_event_type = 5;
pub const C_EVENT_ATOMIC_OVERFLOW: c_event_type = 6;
pub const C_EVENT_FETCH_ATOMIC_OVERFLOW: c_event_type = 7;
pub const C_EVENT_SEND: c_event_type = 8;
pub const C_EVENT_ACK: c_event_type = 9;
pub const C_EVENT_REPLY: c_event_type = 10;
pub const C_EVENT_LINK: c_event_type = 11;
pub const C_EVENT_SEARCH: c_event_type = 12;
pub const C_EVENT_STATE_CHANGE: c_event_type = 13;
pub const C_EVENT_UNLINK: c_event_type = 14;
pub const C_EVENT_RENDEZVOUS: c_event_type = 15;
pub const C_EVENT_ETHERNET: c_event_type = 16;
pub const C_EVENT_COMMAND_FAILURE: c_event_type = 17;
pub const C_EVENT_TRIGGERED_OP: c_event_type = 18;
pub const C_EVENT_ETHERNET_FGFC: c_event_type = 19;
pub const C_EVENT_PCT: c_event_type = 20;
pub const C_EVENT_MATCH: c_event_type = 21;
pub const C_EVENT_ERROR: c_event_type = 28;
pub const C_EVENT_TIMESTAMP: c_event_type = 29;
pub const C_EVENT_EQ_SWITCH: c_event_type = 30;
pub const C_EVENT_NULL_EVENT: c_event_type = 31;
pub type c_event_type = ::core::ffi::c_uint;
pub const C_RC_NO_EVENT: c_return_code = 0;
pub const C_RC_OK: c_return_code = 1;
pub const C_RC_UNDELIVERABLE: c_return_code = 2;
pub const C_RC_PT_DISABLED: c_return_code = 3;
pub const C_RC_DROPPED: c_return_code = 4;
pub const C_RC_PERM_VIOLATION: c_return_code = 5;
pub const C_RC_OP_VIOLATION: c_return_code = 6;
pub const C_RC_NO_MATCH: c_return_code = 8;
pub const C_RC_UNCOR: c_return_code = 9;
pub const C_RC_UNCOR_TRNSNT: c_return_code = 10;
pub const C_RC_NO_SPACE: c_return_code = 16;
pub const C_RC_ENTRY_NOT_FOUND: c_return_code = 18;
pub const C_RC_NO_TARGET_CONN: c_return_code = 19;
pub const C_RC_NO_TARGET_MST: c_return_code = 20;
pub const C_RC_NO_TARGET_TRS: c_return_code = 21;
pub const C_RC_SEQUENCE_ERROR: c_return_code = 22;
pub const C_RC_NO_MATCHING_CONN: c_return_code = 23;
pub const C_RC_INVALID_DFA_FORMAT: c_return_code = 24;
pub const C_RC_VNI_NOT_FOUND: c_return_code = 25;
pub const C_RC_PTLTE_NOT_FOUND: c_return_code = 26;
pub const C_RC_PTLTE_SW_MANAGED: c_return_code = 27;
pub const C_RC_SRC_ERROR: c_return_code = 28;
pub const C_RC_MST_CANCELLED: c_return_code = 29;
pub const C_RC_HRP_CONFIG_ERROR: c_return_code = 30;
pub const C_RC_HRP_RSP_ERROR: c_return_code = 31;
pub const C_RC_HRP_RSP_DISCARD: c_return_code = 32;
pub const C_RC_INVALID_AC: c_return_code = 33;
pub const C_RC_PAGE_PERM_ERROR: c_return_code = 34;
pub const C_RC_ATS_ERROR: c_return_code = 35;
pub const C_RC_NO_TRANSLATION: c_return_code = 36;
pub const C_RC_PAGE_REQ_ERROR: c_return_code = 37;
pub const C_RC_PCIE_ERROR_POISONED: c_return_code = 38;
pub const C_RC_PCIE_UNSUCCESS_CMPL: c_return_code = 39;
pub const C_RC_AMO_INVAL_OP_ERROR: c_return_code = 40;
pub const C_RC_AMO_ALIGN_ERROR: c_return_code = 41;
pub const C_RC_AMO_FP_INVALID: c_return_code = 42;
pub const C_RC_AMO_FP_UNDERFLOW: c_return_code = 43;
pub const C_RC_AMO_FP_OVERFLOW: c_return_code = 44;
pub const C_RC_AMO_FP_INEXACT: c_return_code = 45;
pub const C_RC_ILLEGAL_OP: c_return_code = 46;
pub const C_RC_INVALID_ENDPOINT: c_return_code = 47;
pub const C_RC_RESTRICTED_UNICAST: c_return_code = 48;
pub const C_RC_CMD_ALIGN_ERROR: c_return_code = 49;
pub const C_RC_CMD_INVALID_ARG: c_return_code = 50;
pub const C_RC_INVALID_EVENT: c_return_code = 51;
pub const C_RC_ADDR_OUT_OF_RANGE: c_return_code = 52;
pub const C_RC_CONN_CLOSED: c_return_code = 53;
pub const C_RC_CANCELED: c_return_code = 54;
pub const C_RC_NO_MATCHING_TRS: c_return_code = 55;
pub const C_RC_NO_MATCHING_MST: c_return_code = 56;
pub const C_RC_DELAYED: c_return_code = 57;
pub const C_RC_AMO_LENGTH_ERROR: c_return_code = 58;
pub const C_RC_PKTBUF_ERROR: c_return_code = 59;
pub const C_RC_RESOURCE_BUSY: c_return_code = 60;
pub const C_RC_FLUSH_TRANSLATION: c_return_code = 61;
pub const C_RC_TRS_PEND_RSP: c_return_code = 62;
pub type c_return_code = ::core::ffi::c_uint;
pub type c_cntr_type = i32;
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxil_wait_obj {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxil_pte_map {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_cmd32 {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct c_cq_status {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct c_eq_status {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct c_ct_writeback {
    _unused: [u8; 0],
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union c_ee_cfg_eq_sw_state {
    pub qw: u64,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of c_ee_cfg_eq_sw_state",
    ][::core::mem::size_of::<c_ee_cfg_eq_sw_state>() - 8usize];
    [
        "Alignment of c_ee_cfg_eq_sw_state",
    ][::core::mem::align_of::<c_ee_cfg_eq_sw_state>() - 8usize];
    [
        "Offset of field: c_ee_cfg_eq_sw_state::qw",
    ][::core::mem::offset_of!(c_ee_cfg_eq_sw_state, qw) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct cxil_devinfo {
    pub dev_id: ::core::ffi::c_uint,
    pub __bindgen_anon_1: cxil_devinfo__bindgen_ty_1,
    pub pid_bits: ::core::ffi::c_uint,
    pub pid_count: ::core::ffi::c_uint,
    pub pid_granule: ::core::ffi::c_uint,
    pub min_free_shift: ::core::ffi::c_uint,
    pub rdzv_get_idx: ::core::ffi::c_uint,
    pub device_name: [::core::ffi::c_char; 14usize],
    pub driver_name: [::core::ffi::c_char; 9usize],
    pub vendor_id: ::core::ffi::c_uint,
    pub device_id: ::core::ffi::c_uint,
    pub device_rev: ::core::ffi::c_uint,
    pub device_proto: ::core::ffi::c_uint,
    pub device_platform: ::core::ffi::c_uint,
    pub num_ptes: u16,
    pub num_txqs: u16,
    pub num_tgqs: u16,
    pub num_eqs: u16,
    pub num_cts: u16,
    pub num_acs: u16,
    pub num_tles: u16,
    pub num_les: u16,
    pub pci_domain: u16,
    pub pci_bus: u8,
    pub pci_device: u8,
    pub pci_function: u8,
    pub link_mtu: usize,
    pub link_speed: usize,
    pub link_state: u8,
    pub uc_nic: ::core::ffi::c_int,
    pub pct_eq: ::core::ffi::c_uint,
    pub cassini_version: cassini_version,
    pub fru_description: [::core::ffi::c_char; 16usize],
    pub is_vf: bool,
    pub system_type_identifier: system_type_identifier,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union cxil_devinfo__bindgen_ty_1 {
    pub nic_addr: ::core::ffi::c_uint,
    pub nid: ::core::ffi::c_uint,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of cxil_devinfo__bindgen_ty_1",
    ][::core::mem::size_of::<cxil_devinfo__bindgen_ty_1>() - 4usize];
    [
        "Alignment of cxil_devinfo__bindgen_ty_1",
    ][::core::mem::align_of::<cxil_devinfo__bindgen_ty_1>() - 4usize];
    [
        "Offset of field: cxil_devinfo__bindgen_ty_1::nic_addr",
    ][::core::mem::offset_of!(cxil_devinfo__bindgen_ty_1, nic_addr) - 0usize];
    [
        "Offset of field: cxil_devinfo__bindgen_ty_1::nid",
    ][::core::mem::offset_of!(cxil_devinfo__bindgen_ty_1, nid) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxil_devinfo"][::core::mem::size_of::<cxil_devinfo>() - 152usize];
    ["Alignment of cxil_devinfo"][::core::mem::align_of::<cxil_devinfo>() - 8usize];
    [
        "Offset of field: cxil_devinfo::dev_id",
    ][::core::mem::offset_of!(cxil_devinfo, dev_id) - 0usize];
    [
        "Offset of field: cxil_devinfo::pid_bits",
    ][::core::mem::offset_of!(cxil_devinfo, pid_bits) - 8usize];
    [
        "Offset of field: cxil_devinfo::pid_count",
    ][::core::mem::offset_of!(cxil_devinfo, pid_count) - 12usize];
    [
        "Offset of field: cxil_devinfo::pid_granule",
    ][::core::mem::offset_of!(cxil_devinfo, pid_granule) - 16usize];
    [
        "Offset of field: cxil_devinfo::min_free_shift",
    ][::core::mem::offset_of!(cxil_devinfo, min_free_shift) - 20usize];
    [
        "Offset of field: cxil_devinfo::rdzv_get_idx",
    ][::core::mem::offset_of!(cxil_devinfo, rdzv_get_idx) - 24usize];
    [
        "Offset of field: cxil_devinfo::device_name",
    ][::core::mem::offset_of!(cxil_devinfo, device_name) - 28usize];
    [
        "Offset of field: cxil_devinfo::driver_name",
    ][::core::mem::offset_of!(cxil_devinfo, driver_name) - 42usize];
    [
        "Offset of field: cxil_devinfo::vendor_id",
    ][::core::mem::offset_of!(cxil_devinfo, vendor_id) - 52usize];
    [
        "Offset of field: cxil_devinfo::device_id",
    ][::core::mem::offset_of!(cxil_devinfo, device_id) - 56usize];
    [
        "Offset of field: cxil_devinfo::device_rev",
    ][::core::mem::offset_of!(cxil_devinfo, device_rev) - 60usize];
    [
        "Offset of field: cxil_devinfo::device_proto",
    ][::core::mem::offset_of!(cxil_devinfo, device_proto) - 64usize];
    [
        "Offset of field: cxil_devinfo::device_platform",
    ][::core::mem::offset_of!(cxil_devinfo, device_platform) - 68usize];
    [
        "Offset of field: cxil_devinfo::num_ptes",
    ][::core::mem::offset_of!(cxil_devinfo, num_ptes) - 72usize];
    [
        "Offset of field: cxil_devinfo::num_txqs",
    ][::core::mem::offset_of!(cxil_devinfo, num_txqs) - 74usize];
    [
        "Offset of field: cxil_devinfo::num_tgqs",
    ][::core::mem::offset_of!(cxil_devinfo, num_tgqs) - 76usize];
    [
        "Offset of field: cxil_devinfo::num_eqs",
    ][::core::mem::offset_of!(cxil_devinfo, num_eqs) - 78usize];
    [
        "Offset of field: cxil_devinfo::num_cts",
    ][::core::mem::offset_of!(cxil_devinfo, num_cts) - 80usize];
    [
        "Offset of field: cxil_devinfo::num_acs",
    ][::core::mem::offset_of!(cxil_devinfo, num_acs) - 82usize];
    [
        "Offset of field: cxil_devinfo::num_tles",
    ][::core::mem::offset_of!(cxil_devinfo, num_tles) - 84usize];
    [
        "Offset of field: cxil_devinfo::num_les",
    ][::core::mem::offset_of!(cxil_devinfo, num_les) - 86usize];
    [
        "Offset of field: cxil_devinfo::pci_domain",
    ][::core::mem::offset_of!(cxil_devinfo, pci_domain) - 88usize];
    [
        "Offset of field: cxil_devinfo::pci_bus",
    ][::core::mem::offset_of!(cxil_devinfo, pci_bus) - 90usize];
    [
        "Offset of field: cxil_devinfo::pci_device",
    ][::core::mem::offset_of!(cxil_devinfo, pci_device) - 91usize];
    [
        "Offset of field: cxil_devinfo::pci_function",
    ][::core::mem::offset_of!(cxil_devinfo, pci_function) - 92usize];
    [
        "Offset of field: cxil_devinfo::link_mtu",
    ][::core::mem::offset_of!(cxil_devinfo, link_mtu) - 96usize];
    [
        "Offset of field: cxil_devinfo::link_speed",
    ][::core::mem::offset_of!(cxil_devinfo, link_speed) - 104usize];
    [
        "Offset of field: cxil_devinfo::link_state",
    ][::core::mem::offset_of!(cxil_devinfo, link_state) - 112usize];
    [
        "Offset of field: cxil_devinfo::uc_nic",
    ][::core::mem::offset_of!(cxil_devinfo, uc_nic) - 116usize];
    [
        "Offset of field: cxil_devinfo::pct_eq",
    ][::core::mem::offset_of!(cxil_devinfo, pct_eq) - 120usize];
    [
        "Offset of field: cxil_devinfo::cassini_version",
    ][::core::mem::offset_of!(cxil_devinfo, cassini_version) - 124usize];
    [
        "Offset of field: cxil_devinfo::fru_description",
    ][::core::mem::offset_of!(cxil_devinfo, fru_description) - 128usize];
    [
        "Offset of field: cxil_devinfo::is_vf",
    ][::core::mem::offset_of!(cxil_devinfo, is_vf) - 144usize];
    [
        "Offset of field: cxil_devinfo::system_type_identifier",
    ][::core::mem::offset_of!(cxil_devinfo, system_type_identifier) - 148usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct cxil_dev {
    pub info: cxil_devinfo,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxil_dev"][::core::mem::size_of::<cxil_dev>() - 152usize];
    ["Alignment of cxil_dev"][::core::mem::align_of::<cxil_dev>() - 8usize];
    [
        "Offset of field: cxil_dev::info",
    ][::core::mem::offset_of!(cxil_dev, info) - 0usize];
};
#[repr(C)]
pub struct cxil_device_list {
    pub count: ::core::ffi::c_uint,
    pub info: __IncompleteArrayField<cxil_devinfo>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxil_device_list"][::core::mem::size_of::<cxil_device_list>() - 8usize];
    [
        "Alignment of cxil_device_list",
    ][::core::mem::align_of::<cxil_device_list>() - 8usize];
    [
        "Offset of field: cxil_device_list::count",
    ][::core::mem::offset_of!(cxil_device_list, count) - 0usize];
    [
        "Offset of field: cxil_device_list::info",
    ][::core::mem::offset_of!(cxil_device_list, info) - 8usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_limits {
    pub max: u16,
    pub res: u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_limits"][::core::mem::size_of::<cxi_limits>() - 4usize];
    ["Alignment of cxi_limits"][::core::mem::align_of::<cxi_limits>() - 2usize];
    [
        "Offset of field: cxi_limits::max",
    ][::core::mem::offset_of!(cxi_limits, max) - 0usize];
    [
        "Offset of field: cxi_limits::res",
    ][::core::mem::offset_of!(cxi_limits, res) - 2usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct cxi_rsrc_limits {
    pub __bindgen_anon_1: cxi_rsrc_limits__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union cxi_rsrc_limits__bindgen_ty_1 {
    pub __bindgen_anon_1: cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1,
    pub type_: [cxi_limits; 8usize],
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1 {
    pub ptes: cxi_limits,
    pub txqs: cxi_limits,
    pub tgqs: cxi_limits,
    pub eqs: cxi_limits,
    pub cts: cxi_limits,
    pub les: cxi_limits,
    pub tles: cxi_limits,
    pub acs: cxi_limits,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1",
    ][::core::mem::size_of::<cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1>() - 32usize];
    [
        "Alignment of cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1",
    ][::core::mem::align_of::<cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1>() - 2usize];
    [
        "Offset of field: cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1::ptes",
    ][::core::mem::offset_of!(cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1, ptes)
        - 0usize];
    [
        "Offset of field: cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1::txqs",
    ][::core::mem::offset_of!(cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1, txqs)
        - 4usize];
    [
        "Offset of field: cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1::tgqs",
    ][::core::mem::offset_of!(cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1, tgqs)
        - 8usize];
    [
        "Offset of field: cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1::eqs",
    ][::core::mem::offset_of!(cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1, eqs)
        - 12usize];
    [
        "Offset of field: cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1::cts",
    ][::core::mem::offset_of!(cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1, cts)
        - 16usize];
    [
        "Offset of field: cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1::les",
    ][::core::mem::offset_of!(cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1, les)
        - 20usize];
    [
        "Offset of field: cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1::tles",
    ][::core::mem::offset_of!(cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1, tles)
        - 24usize];
    [
        "Offset of field: cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1::acs",
    ][::core::mem::offset_of!(cxi_rsrc_limits__bindgen_ty_1__bindgen_ty_1, acs)
        - 28usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of cxi_rsrc_limits__bindgen_ty_1",
    ][::core::mem::size_of::<cxi_rsrc_limits__bindgen_ty_1>() - 32usize];
    [
        "Alignment of cxi_rsrc_limits__bindgen_ty_1",
    ][::core::mem::align_of::<cxi_rsrc_limits__bindgen_ty_1>() - 2usize];
    [
        "Offset of field: cxi_rsrc_limits__bindgen_ty_1::type_",
    ][::core::mem::offset_of!(cxi_rsrc_limits__bindgen_ty_1, type_) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_rsrc_limits"][::core::mem::size_of::<cxi_rsrc_limits>() - 32usize];
    [
        "Alignment of cxi_rsrc_limits",
    ][::core::mem::align_of::<cxi_rsrc_limits>() - 2usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub union cxi_svc_member {
    pub uid: ::core::ffi::c_uint,
    pub gid: ::core::ffi::c_uint,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_svc_member"][::core::mem::size_of::<cxi_svc_member>() - 4usize];
    ["Alignment of cxi_svc_member"][::core::mem::align_of::<cxi_svc_member>() - 4usize];
    [
        "Offset of field: cxi_svc_member::uid",
    ][::core::mem::offset_of!(cxi_svc_member, uid) - 0usize];
    [
        "Offset of field: cxi_svc_member::gid",
    ][::core::mem::offset_of!(cxi_svc_member, gid) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct cxi_svc_desc {
    pub _bitfield_align_1: [u8; 0],
    pub _bitfield_1: __BindgenBitfieldUnit<[u8; 1usize]>,
    pub num_vld_vnis: u8,
    pub vnis: [u16; 4usize],
    pub tcs: [bool; 5usize],
    pub members: [cxi_svc_desc__bindgen_ty_1; 2usize],
    pub limits: cxi_rsrc_limits,
    pub svc_id: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub struct cxi_svc_desc__bindgen_ty_1 {
    pub svc_member: cxi_svc_member,
    pub type_: cxi_svc_member_type,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of cxi_svc_desc__bindgen_ty_1",
    ][::core::mem::size_of::<cxi_svc_desc__bindgen_ty_1>() - 8usize];
    [
        "Alignment of cxi_svc_desc__bindgen_ty_1",
    ][::core::mem::align_of::<cxi_svc_desc__bindgen_ty_1>() - 4usize];
    [
        "Offset of field: cxi_svc_desc__bindgen_ty_1::svc_member",
    ][::core::mem::offset_of!(cxi_svc_desc__bindgen_ty_1, svc_member) - 0usize];
    [
        "Offset of field: cxi_svc_desc__bindgen_ty_1::type_",
    ][::core::mem::offset_of!(cxi_svc_desc__bindgen_ty_1, type_) - 4usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_svc_desc"][::core::mem::size_of::<cxi_svc_desc>() - 68usize];
    ["Alignment of cxi_svc_desc"][::core::mem::align_of::<cxi_svc_desc>() - 4usize];
    [
        "Offset of field: cxi_svc_desc::num_vld_vnis",
    ][::core::mem::offset_of!(cxi_svc_desc, num_vld_vnis) - 1usize];
    [
        "Offset of field: cxi_svc_desc::vnis",
    ][::core::mem::offset_of!(cxi_svc_desc, vnis) - 2usize];
    [
        "Offset of field: cxi_svc_desc::tcs",
    ][::core::mem::offset_of!(cxi_svc_desc, tcs) - 10usize];
    [
        "Offset of field: cxi_svc_desc::members",
    ][::core::mem::offset_of!(cxi_svc_desc, members) - 16usize];
    [
        "Offset of field: cxi_svc_desc::limits",
    ][::core::mem::offset_of!(cxi_svc_desc, limits) - 32usize];
    [
        "Offset of field: cxi_svc_desc::svc_id",
    ][::core::mem::offset_of!(cxi_svc_desc, svc_id) - 64usize];
};
impl cxi_svc_desc {
    #[inline]
    pub fn restricted_members(&self) -> u8 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(0usize, 1u8) as u8) }
    }
    #[inline]
    pub fn set_restricted_members(&mut self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            self._bitfield_1.set(0usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn restricted_members_raw(this: *const Self) -> u8 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 1usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 0usize, 1u8)
                    as u8,
            )
        }
    }
    #[inline]
    pub unsafe fn set_restricted_members_raw(this: *mut Self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 1usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                0usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn restricted_vnis(&self) -> u8 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(1usize, 1u8) as u8) }
    }
    #[inline]
    pub fn set_restricted_vnis(&mut self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            self._bitfield_1.set(1usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn restricted_vnis_raw(this: *const Self) -> u8 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 1usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 1usize, 1u8)
                    as u8,
            )
        }
    }
    #[inline]
    pub unsafe fn set_restricted_vnis_raw(this: *mut Self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 1usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                1usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn restricted_tcs(&self) -> u8 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(2usize, 1u8) as u8) }
    }
    #[inline]
    pub fn set_restricted_tcs(&mut self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            self._bitfield_1.set(2usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn restricted_tcs_raw(this: *const Self) -> u8 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 1usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 2usize, 1u8)
                    as u8,
            )
        }
    }
    #[inline]
    pub unsafe fn set_restricted_tcs_raw(this: *mut Self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 1usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                2usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn resource_limits(&self) -> u8 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(3usize, 1u8) as u8) }
    }
    #[inline]
    pub fn set_resource_limits(&mut self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            self._bitfield_1.set(3usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn resource_limits_raw(this: *const Self) -> u8 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 1usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 3usize, 1u8)
                    as u8,
            )
        }
    }
    #[inline]
    pub unsafe fn set_resource_limits_raw(this: *mut Self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 1usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                3usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn enable(&self) -> u8 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(4usize, 1u8) as u8) }
    }
    #[inline]
    pub fn set_enable(&mut self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            self._bitfield_1.set(4usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn enable_raw(this: *const Self) -> u8 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 1usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 4usize, 1u8)
                    as u8,
            )
        }
    }
    #[inline]
    pub unsafe fn set_enable_raw(this: *mut Self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 1usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                4usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn is_system_svc(&self) -> u8 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(5usize, 1u8) as u8) }
    }
    #[inline]
    pub fn set_is_system_svc(&mut self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            self._bitfield_1.set(5usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn is_system_svc_raw(this: *const Self) -> u8 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 1usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 5usize, 1u8)
                    as u8,
            )
        }
    }
    #[inline]
    pub unsafe fn set_is_system_svc_raw(this: *mut Self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 1usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                5usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn cntr_pool_id(&self) -> u8 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(6usize, 2u8) as u8) }
    }
    #[inline]
    pub fn set_cntr_pool_id(&mut self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            self._bitfield_1.set(6usize, 2u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn cntr_pool_id_raw(this: *const Self) -> u8 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 1usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 6usize, 2u8)
                    as u8,
            )
        }
    }
    #[inline]
    pub unsafe fn set_cntr_pool_id_raw(this: *mut Self, val: u8) {
        unsafe {
            let val: u8 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 1usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                6usize,
                2u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn new_bitfield_1(
        restricted_members: u8,
        restricted_vnis: u8,
        restricted_tcs: u8,
        resource_limits: u8,
        enable: u8,
        is_system_svc: u8,
        cntr_pool_id: u8,
    ) -> __BindgenBitfieldUnit<[u8; 1usize]> {
        let mut __bindgen_bitfield_unit: __BindgenBitfieldUnit<[u8; 1usize]> = Default::default();
        __bindgen_bitfield_unit
            .set(
                0usize,
                1u8,
                {
                    let restricted_members: u8 = unsafe {
                        ::core::mem::transmute(restricted_members)
                    };
                    restricted_members as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                1usize,
                1u8,
                {
                    let restricted_vnis: u8 = unsafe {
                        ::core::mem::transmute(restricted_vnis)
                    };
                    restricted_vnis as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                2usize,
                1u8,
                {
                    let restricted_tcs: u8 = unsafe {
                        ::core::mem::transmute(restricted_tcs)
                    };
                    restricted_tcs as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                3usize,
                1u8,
                {
                    let resource_limits: u8 = unsafe {
                        ::core::mem::transmute(resource_limits)
                    };
                    resource_limits as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                4usize,
                1u8,
                {
                    let enable: u8 = unsafe { ::core::mem::transmute(enable) };
                    enable as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                5usize,
                1u8,
                {
                    let is_system_svc: u8 = unsafe {
                        ::core::mem::transmute(is_system_svc)
                    };
                    is_system_svc as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                6usize,
                2u8,
                {
                    let cntr_pool_id: u8 = unsafe {
                        ::core::mem::transmute(cntr_pool_id)
                    };
                    cntr_pool_id as u64
                },
            );
        __bindgen_bitfield_unit
    }
}
#[repr(C)]
pub struct cxil_svc_list {
    pub count: ::core::ffi::c_uint,
    pub descs: __IncompleteArrayField<cxi_svc_desc>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxil_svc_list"][::core::mem::size_of::<cxil_svc_list>() - 4usize];
    ["Alignment of cxil_svc_list"][::core::mem::align_of::<cxil_svc_list>() - 4usize];
    [
        "Offset of field: cxil_svc_list::count",
    ][::core::mem::offset_of!(cxil_svc_list, count) - 0usize];
    [
        "Offset of field: cxil_svc_list::descs",
    ][::core::mem::offset_of!(cxil_svc_list, descs) - 4usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_rsrc_use {
    pub svc_id: ::core::ffi::c_uint,
    pub tle_pool_id: ::core::ffi::c_uint,
    pub in_use: [u16; 8usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_rsrc_use"][::core::mem::size_of::<cxi_rsrc_use>() - 24usize];
    ["Alignment of cxi_rsrc_use"][::core::mem::align_of::<cxi_rsrc_use>() - 4usize];
    [
        "Offset of field: cxi_rsrc_use::svc_id",
    ][::core::mem::offset_of!(cxi_rsrc_use, svc_id) - 0usize];
    [
        "Offset of field: cxi_rsrc_use::tle_pool_id",
    ][::core::mem::offset_of!(cxi_rsrc_use, tle_pool_id) - 4usize];
    [
        "Offset of field: cxi_rsrc_use::in_use",
    ][::core::mem::offset_of!(cxi_rsrc_use, in_use) - 8usize];
};
#[repr(C)]
#[derive(Debug)]
pub struct cxil_svc_rsrc_list {
    pub count: ::core::ffi::c_uint,
    pub rsrcs: __IncompleteArrayField<cxi_rsrc_use>,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of cxil_svc_rsrc_list",
    ][::core::mem::size_of::<cxil_svc_rsrc_list>() - 4usize];
    [
        "Alignment of cxil_svc_rsrc_list",
    ][::core::mem::align_of::<cxil_svc_rsrc_list>() - 4usize];
    [
        "Offset of field: cxil_svc_rsrc_list::count",
    ][::core::mem::offset_of!(cxil_svc_rsrc_list, count) - 0usize];
    [
        "Offset of field: cxil_svc_rsrc_list::rsrcs",
    ][::core::mem::offset_of!(cxil_svc_rsrc_list, rsrcs) - 4usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_svc_fail_info {
    pub rsrc_avail: [u16; 8usize],
    pub no_le_pools: bool,
    pub no_tle_pools: bool,
    pub no_cntr_pools: bool,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_svc_fail_info"][::core::mem::size_of::<cxi_svc_fail_info>() - 20usize];
    [
        "Alignment of cxi_svc_fail_info",
    ][::core::mem::align_of::<cxi_svc_fail_info>() - 2usize];
    [
        "Offset of field: cxi_svc_fail_info::rsrc_avail",
    ][::core::mem::offset_of!(cxi_svc_fail_info, rsrc_avail) - 0usize];
    [
        "Offset of field: cxi_svc_fail_info::no_le_pools",
    ][::core::mem::offset_of!(cxi_svc_fail_info, no_le_pools) - 16usize];
    [
        "Offset of field: cxi_svc_fail_info::no_tle_pools",
    ][::core::mem::offset_of!(cxi_svc_fail_info, no_tle_pools) - 17usize];
    [
        "Offset of field: cxi_svc_fail_info::no_cntr_pools",
    ][::core::mem::offset_of!(cxi_svc_fail_info, no_cntr_pools) - 18usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxil_lni {
    pub id: ::core::ffi::c_uint,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxil_lni"][::core::mem::size_of::<cxil_lni>() - 4usize];
    ["Alignment of cxil_lni"][::core::mem::align_of::<cxil_lni>() - 4usize];
    ["Offset of field: cxil_lni::id"][::core::mem::offset_of!(cxil_lni, id) - 0usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct cxi_cp {
    pub __bindgen_anon_1: cxi_cp__bindgen_ty_1,
    pub tc: cxi_traffic_class,
    pub tc_type: cxi_traffic_class_type,
    pub lcid: ::core::ffi::c_uint,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union cxi_cp__bindgen_ty_1 {
    pub vni: ::core::ffi::c_uint,
    pub vni_pcp: ::core::ffi::c_uint,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of cxi_cp__bindgen_ty_1",
    ][::core::mem::size_of::<cxi_cp__bindgen_ty_1>() - 4usize];
    [
        "Alignment of cxi_cp__bindgen_ty_1",
    ][::core::mem::align_of::<cxi_cp__bindgen_ty_1>() - 4usize];
    [
        "Offset of field: cxi_cp__bindgen_ty_1::vni",
    ][::core::mem::offset_of!(cxi_cp__bindgen_ty_1, vni) - 0usize];
    [
        "Offset of field: cxi_cp__bindgen_ty_1::vni_pcp",
    ][::core::mem::offset_of!(cxi_cp__bindgen_ty_1, vni_pcp) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_cp"][::core::mem::size_of::<cxi_cp>() - 16usize];
    ["Alignment of cxi_cp"][::core::mem::align_of::<cxi_cp>() - 4usize];
    ["Offset of field: cxi_cp::tc"][::core::mem::offset_of!(cxi_cp, tc) - 4usize];
    [
        "Offset of field: cxi_cp::tc_type",
    ][::core::mem::offset_of!(cxi_cp, tc_type) - 8usize];
    ["Offset of field: cxi_cp::lcid"][::core::mem::offset_of!(cxi_cp, lcid) - 12usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxil_domain {
    pub vni: ::core::ffi::c_uint,
    pub pid: ::core::ffi::c_uint,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxil_domain"][::core::mem::size_of::<cxil_domain>() - 8usize];
    ["Alignment of cxil_domain"][::core::mem::align_of::<cxil_domain>() - 4usize];
    [
        "Offset of field: cxil_domain::vni",
    ][::core::mem::offset_of!(cxil_domain, vni) - 0usize];
    [
        "Offset of field: cxil_domain::pid",
    ][::core::mem::offset_of!(cxil_domain, pid) - 4usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_md {
    pub iova: u64,
    pub va: u64,
    pub len: usize,
    pub lac: u8,
    pub page_shift: ::core::ffi::c_int,
    pub huge_shift: ::core::ffi::c_int,
    pub id: ::core::ffi::c_uint,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_md"][::core::mem::size_of::<cxi_md>() - 40usize];
    ["Alignment of cxi_md"][::core::mem::align_of::<cxi_md>() - 8usize];
    ["Offset of field: cxi_md::iova"][::core::mem::offset_of!(cxi_md, iova) - 0usize];
    ["Offset of field: cxi_md::va"][::core::mem::offset_of!(cxi_md, va) - 8usize];
    ["Offset of field: cxi_md::len"][::core::mem::offset_of!(cxi_md, len) - 16usize];
    ["Offset of field: cxi_md::lac"][::core::mem::offset_of!(cxi_md, lac) - 24usize];
    [
        "Offset of field: cxi_md::page_shift",
    ][::core::mem::offset_of!(cxi_md, page_shift) - 28usize];
    [
        "Offset of field: cxi_md::huge_shift",
    ][::core::mem::offset_of!(cxi_md, huge_shift) - 32usize];
    ["Offset of field: cxi_md::id"][::core::mem::offset_of!(cxi_md, id) - 36usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_md_hints {
    pub page_shift: ::core::ffi::c_int,
    pub huge_shift: ::core::ffi::c_int,
    pub ptg_mode: ::core::ffi::c_int,
    pub ptg_mode_valid: bool,
    pub dmabuf_fd: ::core::ffi::c_int,
    pub dmabuf_offset: ::core::ffi::c_ulong,
    pub dmabuf_valid: bool,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_md_hints"][::core::mem::size_of::<cxi_md_hints>() - 40usize];
    ["Alignment of cxi_md_hints"][::core::mem::align_of::<cxi_md_hints>() - 8usize];
    [
        "Offset of field: cxi_md_hints::page_shift",
    ][::core::mem::offset_of!(cxi_md_hints, page_shift) - 0usize];
    [
        "Offset of field: cxi_md_hints::huge_shift",
    ][::core::mem::offset_of!(cxi_md_hints, huge_shift) - 4usize];
    [
        "Offset of field: cxi_md_hints::ptg_mode",
    ][::core::mem::offset_of!(cxi_md_hints, ptg_mode) - 8usize];
    [
        "Offset of field: cxi_md_hints::ptg_mode_valid",
    ][::core::mem::offset_of!(cxi_md_hints, ptg_mode_valid) - 12usize];
    [
        "Offset of field: cxi_md_hints::dmabuf_fd",
    ][::core::mem::offset_of!(cxi_md_hints, dmabuf_fd) - 16usize];
    [
        "Offset of field: cxi_md_hints::dmabuf_offset",
    ][::core::mem::offset_of!(cxi_md_hints, dmabuf_offset) - 24usize];
    [
        "Offset of field: cxi_md_hints::dmabuf_valid",
    ][::core::mem::offset_of!(cxi_md_hints, dmabuf_valid) - 32usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_eq_attr {
    pub queue: *mut ::core::ffi::c_void,
    pub queue_len: usize,
    pub flags: u64,
    pub status_thresh_base: ::core::ffi::c_uint,
    pub status_thresh_delta: ::core::ffi::c_uint,
    pub status_thresh_count: ::core::ffi::c_uint,
    pub ec_delay: ::core::ffi::c_uint,
    pub cpu_affinity: ::core::ffi::c_uint,
    pub reserved_slots: ::core::ffi::c_uint,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_eq_attr"][::core::mem::size_of::<cxi_eq_attr>() - 48usize];
    ["Alignment of cxi_eq_attr"][::core::mem::align_of::<cxi_eq_attr>() - 8usize];
    [
        "Offset of field: cxi_eq_attr::queue",
    ][::core::mem::offset_of!(cxi_eq_attr, queue) - 0usize];
    [
        "Offset of field: cxi_eq_attr::queue_len",
    ][::core::mem::offset_of!(cxi_eq_attr, queue_len) - 8usize];
    [
        "Offset of field: cxi_eq_attr::flags",
    ][::core::mem::offset_of!(cxi_eq_attr, flags) - 16usize];
    [
        "Offset of field: cxi_eq_attr::status_thresh_base",
    ][::core::mem::offset_of!(cxi_eq_attr, status_thresh_base) - 24usize];
    [
        "Offset of field: cxi_eq_attr::status_thresh_delta",
    ][::core::mem::offset_of!(cxi_eq_attr, status_thresh_delta) - 28usize];
    [
        "Offset of field: cxi_eq_attr::status_thresh_count",
    ][::core::mem::offset_of!(cxi_eq_attr, status_thresh_count) - 32usize];
    [
        "Offset of field: cxi_eq_attr::ec_delay",
    ][::core::mem::offset_of!(cxi_eq_attr, ec_delay) - 36usize];
    [
        "Offset of field: cxi_eq_attr::cpu_affinity",
    ][::core::mem::offset_of!(cxi_eq_attr, cpu_affinity) - 40usize];
    [
        "Offset of field: cxi_eq_attr::reserved_slots",
    ][::core::mem::offset_of!(cxi_eq_attr, reserved_slots) - 44usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct cxi_eq {
    pub byte_size: ::core::ffi::c_uint,
    pub sw_state: c_ee_cfg_eq_sw_state,
    pub sw_state_addr: *mut u64,
    pub last_ts_sec: u64,
    pub last_ts_ns: u64,
    pub rd_offset: ::core::ffi::c_uint,
    pub prev_rd_offset: ::core::ffi::c_uint,
    pub eqn: ::core::ffi::c_uint,
    pub context: *mut ::core::ffi::c_void,
    pub __bindgen_anon_1: cxi_eq__bindgen_ty_1,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union cxi_eq__bindgen_ty_1 {
    pub events: *mut u8,
    pub status: *mut c_eq_status,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of cxi_eq__bindgen_ty_1",
    ][::core::mem::size_of::<cxi_eq__bindgen_ty_1>() - 8usize];
    [
        "Alignment of cxi_eq__bindgen_ty_1",
    ][::core::mem::align_of::<cxi_eq__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: cxi_eq__bindgen_ty_1::events",
    ][::core::mem::offset_of!(cxi_eq__bindgen_ty_1, events) - 0usize];
    [
        "Offset of field: cxi_eq__bindgen_ty_1::status",
    ][::core::mem::offset_of!(cxi_eq__bindgen_ty_1, status) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_eq"][::core::mem::size_of::<cxi_eq>() - 72usize];
    ["Alignment of cxi_eq"][::core::mem::align_of::<cxi_eq>() - 8usize];
    [
        "Offset of field: cxi_eq::byte_size",
    ][::core::mem::offset_of!(cxi_eq, byte_size) - 0usize];
    [
        "Offset of field: cxi_eq::sw_state",
    ][::core::mem::offset_of!(cxi_eq, sw_state) - 8usize];
    [
        "Offset of field: cxi_eq::sw_state_addr",
    ][::core::mem::offset_of!(cxi_eq, sw_state_addr) - 16usize];
    [
        "Offset of field: cxi_eq::last_ts_sec",
    ][::core::mem::offset_of!(cxi_eq, last_ts_sec) - 24usize];
    [
        "Offset of field: cxi_eq::last_ts_ns",
    ][::core::mem::offset_of!(cxi_eq, last_ts_ns) - 32usize];
    [
        "Offset of field: cxi_eq::rd_offset",
    ][::core::mem::offset_of!(cxi_eq, rd_offset) - 40usize];
    [
        "Offset of field: cxi_eq::prev_rd_offset",
    ][::core::mem::offset_of!(cxi_eq, prev_rd_offset) - 44usize];
    ["Offset of field: cxi_eq::eqn"][::core::mem::offset_of!(cxi_eq, eqn) - 48usize];
    [
        "Offset of field: cxi_eq::context",
    ][::core::mem::offset_of!(cxi_eq, context) - 56usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_cq_alloc_opts {
    pub count: ::core::ffi::c_uint,
    pub policy: cxi_cq_update_policy,
    pub stat_cnt_pool: ::core::ffi::c_uint,
    pub flags: u32,
    pub lcid: ::core::ffi::c_uint,
    pub lpe_cdt_thresh_id: ::core::ffi::c_uint,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_cq_alloc_opts"][::core::mem::size_of::<cxi_cq_alloc_opts>() - 24usize];
    [
        "Alignment of cxi_cq_alloc_opts",
    ][::core::mem::align_of::<cxi_cq_alloc_opts>() - 4usize];
    [
        "Offset of field: cxi_cq_alloc_opts::count",
    ][::core::mem::offset_of!(cxi_cq_alloc_opts, count) - 0usize];
    [
        "Offset of field: cxi_cq_alloc_opts::policy",
    ][::core::mem::offset_of!(cxi_cq_alloc_opts, policy) - 4usize];
    [
        "Offset of field: cxi_cq_alloc_opts::stat_cnt_pool",
    ][::core::mem::offset_of!(cxi_cq_alloc_opts, stat_cnt_pool) - 8usize];
    [
        "Offset of field: cxi_cq_alloc_opts::flags",
    ][::core::mem::offset_of!(cxi_cq_alloc_opts, flags) - 12usize];
    [
        "Offset of field: cxi_cq_alloc_opts::lcid",
    ][::core::mem::offset_of!(cxi_cq_alloc_opts, lcid) - 16usize];
    [
        "Offset of field: cxi_cq_alloc_opts::lpe_cdt_thresh_id",
    ][::core::mem::offset_of!(cxi_cq_alloc_opts, lpe_cdt_thresh_id) - 20usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_cq_alloc_opts_buf {
    pub opts: cxi_cq_alloc_opts,
    pub buf: *mut ::core::ffi::c_void,
    pub is_host_mem: bool,
    pub dmabuf_fd: ::core::ffi::c_int,
    pub dmabuf_offset: ::core::ffi::c_ulong,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of cxi_cq_alloc_opts_buf",
    ][::core::mem::size_of::<cxi_cq_alloc_opts_buf>() - 48usize];
    [
        "Alignment of cxi_cq_alloc_opts_buf",
    ][::core::mem::align_of::<cxi_cq_alloc_opts_buf>() - 8usize];
    [
        "Offset of field: cxi_cq_alloc_opts_buf::opts",
    ][::core::mem::offset_of!(cxi_cq_alloc_opts_buf, opts) - 0usize];
    [
        "Offset of field: cxi_cq_alloc_opts_buf::buf",
    ][::core::mem::offset_of!(cxi_cq_alloc_opts_buf, buf) - 24usize];
    [
        "Offset of field: cxi_cq_alloc_opts_buf::is_host_mem",
    ][::core::mem::offset_of!(cxi_cq_alloc_opts_buf, is_host_mem) - 32usize];
    [
        "Offset of field: cxi_cq_alloc_opts_buf::dmabuf_fd",
    ][::core::mem::offset_of!(cxi_cq_alloc_opts_buf, dmabuf_fd) - 36usize];
    [
        "Offset of field: cxi_cq_alloc_opts_buf::dmabuf_offset",
    ][::core::mem::offset_of!(cxi_cq_alloc_opts_buf, dmabuf_offset) - 40usize];
};
#[repr(C)]
#[derive(Copy, Clone)]
pub struct cxi_cq {
    pub size: ::core::ffi::c_uint,
    pub wp_addr: *mut u64,
    pub ll_64: *mut u8,
    pub ll_128a: *mut u8,
    pub ll_128u: *mut u8,
    pub __bindgen_anon_1: cxi_cq__bindgen_ty_1,
    pub rp32: u64,
    pub idx: ::core::ffi::c_uint,
    pub size32: ::core::ffi::c_uint,
    pub wp32: u64,
    pub hw_wp32: u64,
}
#[repr(C)]
#[derive(Copy, Clone)]
pub union cxi_cq__bindgen_ty_1 {
    pub cmds32: *mut cxi_cmd32,
    pub status: *mut c_cq_status,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of cxi_cq__bindgen_ty_1",
    ][::core::mem::size_of::<cxi_cq__bindgen_ty_1>() - 8usize];
    [
        "Alignment of cxi_cq__bindgen_ty_1",
    ][::core::mem::align_of::<cxi_cq__bindgen_ty_1>() - 8usize];
    [
        "Offset of field: cxi_cq__bindgen_ty_1::cmds32",
    ][::core::mem::offset_of!(cxi_cq__bindgen_ty_1, cmds32) - 0usize];
    [
        "Offset of field: cxi_cq__bindgen_ty_1::status",
    ][::core::mem::offset_of!(cxi_cq__bindgen_ty_1, status) - 0usize];
};
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_cq"][::core::mem::size_of::<cxi_cq>() - 80usize];
    ["Alignment of cxi_cq"][::core::mem::align_of::<cxi_cq>() - 8usize];
    ["Offset of field: cxi_cq::size"][::core::mem::offset_of!(cxi_cq, size) - 0usize];
    [
        "Offset of field: cxi_cq::wp_addr",
    ][::core::mem::offset_of!(cxi_cq, wp_addr) - 8usize];
    ["Offset of field: cxi_cq::ll_64"][::core::mem::offset_of!(cxi_cq, ll_64) - 16usize];
    [
        "Offset of field: cxi_cq::ll_128a",
    ][::core::mem::offset_of!(cxi_cq, ll_128a) - 24usize];
    [
        "Offset of field: cxi_cq::ll_128u",
    ][::core::mem::offset_of!(cxi_cq, ll_128u) - 32usize];
    ["Offset of field: cxi_cq::rp32"][::core::mem::offset_of!(cxi_cq, rp32) - 48usize];
    ["Offset of field: cxi_cq::idx"][::core::mem::offset_of!(cxi_cq, idx) - 56usize];
    [
        "Offset of field: cxi_cq::size32",
    ][::core::mem::offset_of!(cxi_cq, size32) - 60usize];
    ["Offset of field: cxi_cq::wp32"][::core::mem::offset_of!(cxi_cq, wp32) - 64usize];
    [
        "Offset of field: cxi_cq::hw_wp32",
    ][::core::mem::offset_of!(cxi_cq, hw_wp32) - 72usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_ct {
    pub doorbell: *mut u64,
    pub ctn: ::core::ffi::c_uint,
    pub wb: *mut c_ct_writeback,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_ct"][::core::mem::size_of::<cxi_ct>() - 24usize];
    ["Alignment of cxi_ct"][::core::mem::align_of::<cxi_ct>() - 8usize];
    [
        "Offset of field: cxi_ct::doorbell",
    ][::core::mem::offset_of!(cxi_ct, doorbell) - 0usize];
    ["Offset of field: cxi_ct::ctn"][::core::mem::offset_of!(cxi_ct, ctn) - 8usize];
    ["Offset of field: cxi_ct::wb"][::core::mem::offset_of!(cxi_ct, wb) - 16usize];
};
#[repr(C)]
#[repr(align(8))]
#[derive(Debug, Copy, Clone)]
pub struct cxi_pt_alloc_opts {
    pub _bitfield_align_1: [u8; 0],
    pub _bitfield_1: __BindgenBitfieldUnit<[u8; 3usize]>,
    pub __bindgen_padding_0: [u8; 5usize],
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_pt_alloc_opts"][::core::mem::size_of::<cxi_pt_alloc_opts>() - 8usize];
    [
        "Alignment of cxi_pt_alloc_opts",
    ][::core::mem::align_of::<cxi_pt_alloc_opts>() - 8usize];
};
impl cxi_pt_alloc_opts {
    #[inline]
    pub fn en_event_match(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(0usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_en_event_match(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(0usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn en_event_match_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 0usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_en_event_match_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                0usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn clr_remote_offset(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(1usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_clr_remote_offset(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(1usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn clr_remote_offset_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 1usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_clr_remote_offset_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                1usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn en_flowctrl(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(2usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_en_flowctrl(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(2usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn en_flowctrl_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 2usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_en_flowctrl_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                2usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn use_long_event(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(3usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_use_long_event(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(3usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn use_long_event_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 3usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_use_long_event_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                3usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn lossless(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(4usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_lossless(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(4usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn lossless_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 4usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_lossless_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                4usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn en_restricted_unicast_lm(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(5usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_en_restricted_unicast_lm(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(5usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn en_restricted_unicast_lm_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 5usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_en_restricted_unicast_lm_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                5usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn use_logical(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(6usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_use_logical(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(6usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn use_logical_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 6usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_use_logical_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                6usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn is_matching(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(7usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_is_matching(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(7usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn is_matching_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 7usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_is_matching_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                7usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn do_space_check(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(8usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_do_space_check(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(8usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn do_space_check_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 8usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_do_space_check_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                8usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn en_align_lm(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(9usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_en_align_lm(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(9usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn en_align_lm_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 9usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_en_align_lm_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                9usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn en_sw_hw_st_chng(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(10usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_en_sw_hw_st_chng(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(10usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn en_sw_hw_st_chng_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 10usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_en_sw_hw_st_chng_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                10usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn ethernet(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(11usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_ethernet(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(11usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn ethernet_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 11usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_ethernet_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                11usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn signal_invalid(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(12usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_signal_invalid(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(12usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn signal_invalid_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 12usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_signal_invalid_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                12usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn signal_underflow(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(13usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_signal_underflow(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(13usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn signal_underflow_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 13usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_signal_underflow_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                13usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn signal_overflow(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(14usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_signal_overflow(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(14usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn signal_overflow_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 14usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_signal_overflow_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                14usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn signal_inexact(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(15usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_signal_inexact(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(15usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn signal_inexact_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 15usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_signal_inexact_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                15usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn en_match_on_vni(&self) -> u64 {
        unsafe { ::core::mem::transmute(self._bitfield_1.get(16usize, 1u8) as u64) }
    }
    #[inline]
    pub fn set_en_match_on_vni(&mut self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            self._bitfield_1.set(16usize, 1u8, val as u64)
        }
    }
    #[inline]
    pub unsafe fn en_match_on_vni_raw(this: *const Self) -> u64 {
        unsafe {
            ::core::mem::transmute(
                <__BindgenBitfieldUnit<
                    [u8; 3usize],
                >>::raw_get(::core::ptr::addr_of!((*this)._bitfield_1), 16usize, 1u8)
                    as u64,
            )
        }
    }
    #[inline]
    pub unsafe fn set_en_match_on_vni_raw(this: *mut Self, val: u64) {
        unsafe {
            let val: u64 = ::core::mem::transmute(val);
            <__BindgenBitfieldUnit<
                [u8; 3usize],
            >>::raw_set(
                ::core::ptr::addr_of_mut!((*this)._bitfield_1),
                16usize,
                1u8,
                val as u64,
            )
        }
    }
    #[inline]
    pub fn new_bitfield_1(
        en_event_match: u64,
        clr_remote_offset: u64,
        en_flowctrl: u64,
        use_long_event: u64,
        lossless: u64,
        en_restricted_unicast_lm: u64,
        use_logical: u64,
        is_matching: u64,
        do_space_check: u64,
        en_align_lm: u64,
        en_sw_hw_st_chng: u64,
        ethernet: u64,
        signal_invalid: u64,
        signal_underflow: u64,
        signal_overflow: u64,
        signal_inexact: u64,
        en_match_on_vni: u64,
    ) -> __BindgenBitfieldUnit<[u8; 3usize]> {
        let mut __bindgen_bitfield_unit: __BindgenBitfieldUnit<[u8; 3usize]> = Default::default();
        __bindgen_bitfield_unit
            .set(
                0usize,
                1u8,
                {
                    let en_event_match: u64 = unsafe {
                        ::core::mem::transmute(en_event_match)
                    };
                    en_event_match as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                1usize,
                1u8,
                {
                    let clr_remote_offset: u64 = unsafe {
                        ::core::mem::transmute(clr_remote_offset)
                    };
                    clr_remote_offset as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                2usize,
                1u8,
                {
                    let en_flowctrl: u64 = unsafe {
                        ::core::mem::transmute(en_flowctrl)
                    };
                    en_flowctrl as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                3usize,
                1u8,
                {
                    let use_long_event: u64 = unsafe {
                        ::core::mem::transmute(use_long_event)
                    };
                    use_long_event as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                4usize,
                1u8,
                {
                    let lossless: u64 = unsafe { ::core::mem::transmute(lossless) };
                    lossless as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                5usize,
                1u8,
                {
                    let en_restricted_unicast_lm: u64 = unsafe {
                        ::core::mem::transmute(en_restricted_unicast_lm)
                    };
                    en_restricted_unicast_lm as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                6usize,
                1u8,
                {
                    let use_logical: u64 = unsafe {
                        ::core::mem::transmute(use_logical)
                    };
                    use_logical as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                7usize,
                1u8,
                {
                    let is_matching: u64 = unsafe {
                        ::core::mem::transmute(is_matching)
                    };
                    is_matching as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                8usize,
                1u8,
                {
                    let do_space_check: u64 = unsafe {
                        ::core::mem::transmute(do_space_check)
                    };
                    do_space_check as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                9usize,
                1u8,
                {
                    let en_align_lm: u64 = unsafe {
                        ::core::mem::transmute(en_align_lm)
                    };
                    en_align_lm as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                10usize,
                1u8,
                {
                    let en_sw_hw_st_chng: u64 = unsafe {
                        ::core::mem::transmute(en_sw_hw_st_chng)
                    };
                    en_sw_hw_st_chng as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                11usize,
                1u8,
                {
                    let ethernet: u64 = unsafe { ::core::mem::transmute(ethernet) };
                    ethernet as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                12usize,
                1u8,
                {
                    let signal_invalid: u64 = unsafe {
                        ::core::mem::transmute(signal_invalid)
                    };
                    signal_invalid as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                13usize,
                1u8,
                {
                    let signal_underflow: u64 = unsafe {
                        ::core::mem::transmute(signal_underflow)
                    };
                    signal_underflow as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                14usize,
                1u8,
                {
                    let signal_overflow: u64 = unsafe {
                        ::core::mem::transmute(signal_overflow)
                    };
                    signal_overflow as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                15usize,
                1u8,
                {
                    let signal_inexact: u64 = unsafe {
                        ::core::mem::transmute(signal_inexact)
                    };
                    signal_inexact as u64
                },
            );
        __bindgen_bitfield_unit
            .set(
                16usize,
                1u8,
                {
                    let en_match_on_vni: u64 = unsafe {
                        ::core::mem::transmute(en_match_on_vni)
                    };
                    en_match_on_vni as u64
                },
            );
        __bindgen_bitfield_unit
    }
}
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxil_pte {
    pub ptn: ::core::ffi::c_uint,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxil_pte"][::core::mem::size_of::<cxil_pte>() - 4usize];
    ["Alignment of cxil_pte"][::core::mem::align_of::<cxil_pte>() - 4usize];
    ["Offset of field: cxil_pte::ptn"][::core::mem::offset_of!(cxil_pte, ptn) - 0usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_pte_status {
    pub drop_count: u32,
    pub state: u8,
    pub les_reserved: u16,
    pub les_allocated: u16,
    pub les_max: u16,
    pub ule_offsets: *mut u64,
    pub ule_count: u16,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    ["Size of cxi_pte_status"][::core::mem::size_of::<cxi_pte_status>() - 32usize];
    ["Alignment of cxi_pte_status"][::core::mem::align_of::<cxi_pte_status>() - 8usize];
    [
        "Offset of field: cxi_pte_status::drop_count",
    ][::core::mem::offset_of!(cxi_pte_status, drop_count) - 0usize];
    [
        "Offset of field: cxi_pte_status::state",
    ][::core::mem::offset_of!(cxi_pte_status, state) - 4usize];
    [
        "Offset of field: cxi_pte_status::les_reserved",
    ][::core::mem::offset_of!(cxi_pte_status, les_reserved) - 6usize];
    [
        "Offset of field: cxi_pte_status::les_allocated",
    ][::core::mem::offset_of!(cxi_pte_status, les_allocated) - 8usize];
    [
        "Offset of field: cxi_pte_status::les_max",
    ][::core::mem::offset_of!(cxi_pte_status, les_max) - 10usize];
    [
        "Offset of field: cxi_pte_status::ule_offsets",
    ][::core::mem::offset_of!(cxi_pte_status, ule_offsets) - 16usize];
    [
        "Offset of field: cxi_pte_status::ule_count",
    ][::core::mem::offset_of!(cxi_pte_status, ule_count) - 24usize];
};
#[repr(C)]
#[derive(Debug, Copy, Clone)]
pub struct cxi_sbus_op_params {
    pub req_data: u32,
    pub data_addr: u8,
    pub rx_addr: u8,
    pub command: u8,
    pub delay: ::core::ffi::c_uint,
    pub timeout: ::core::ffi::c_uint,
    pub poll_interval: ::core::ffi::c_uint,
}
#[allow(clippy::unnecessary_operation, clippy::identity_op)]
const _: () = {
    [
        "Size of cxi_sbus_op_params",
    ][::core::mem::size_of::<cxi_sbus_op_params>() - 20usize];
    [
        "Alignment of cxi_sbus_op_params",
    ][::core::mem::align_of::<cxi_sbus_op_params>() - 4usize];
    [
        "Offset of field: cxi_sbus_op_params::req_data",
    ][::core::mem::offset_of!(cxi_sbus_op_params, req_data) - 0usize];
    [
        "Offset of field: cxi_sbus_op_params::data_addr",
    ][::core::mem::offset_of!(cxi_sbus_op_params, data_addr) - 4usize];
    [
        "Offset of field: cxi_sbus_op_params::rx_addr",
    ][::core::mem::offset_of!(cxi_sbus_op_params, rx_addr) - 5usize];
    [
        "Offset of field: cxi_sbus_op_params::command",
    ][::core::mem::offset_of!(cxi_sbus_op_params, command) - 6usize];
    [
        "Offset of field: cxi_sbus_op_params::delay",
    ][::core::mem::offset_of!(cxi_sbus_op_params, delay) - 8usize];
    [
        "Offset of field: cxi_sbus_op_params::timeout",
    ][::core::mem::offset_of!(cxi_sbus_op_params, timeout) - 12usize];
    [
        "Offset of field: cxi_sbus_op_params::poll_interval",
    ][::core::mem::offset_of!(cxi_sbus_op_params, poll_interval) - 16usize];
};
unsafe extern "C" {
    pub fn cxil_get_device_list(
        dev_list: *mut *mut cxil_device_list,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_free_device_list(dev_list: *mut cxil_device_list);
}
unsafe extern "C" {
    pub fn cxil_open_device(dev_id: u32, dev: *mut *mut cxil_dev) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_close_device(dev: *mut cxil_dev);
}
unsafe extern "C" {
    pub fn cxil_get_svc(
        dev: *mut cxil_dev,
        svc_id: ::core::ffi::c_uint,
        svc_desc: *mut cxi_svc_desc,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_get_svc_list(
        dev: *mut cxil_dev,
        svc_list: *mut *mut cxil_svc_list,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_free_svc_list(svc_list: *mut cxil_svc_list);
}
unsafe extern "C" {
    pub fn cxil_get_svc_rsrc_use(
        dev: *mut cxil_dev,
        svc_id: ::core::ffi::c_uint,
        rsrcs: *mut cxi_rsrc_use,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_get_svc_rsrc_list(
        dev: *mut cxil_dev,
        rsrc_list: *mut *mut cxil_svc_rsrc_list,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_free_svc_rsrc_list(rsrc_list: *mut cxil_svc_rsrc_list);
}
unsafe extern "C" {
    pub fn cxil_update_svc(
        dev: *mut cxil_dev,
        desc: *const cxi_svc_desc,
        fail_info: *mut cxi_svc_fail_info,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_alloc_svc(
        dev: *mut cxil_dev,
        desc: *const cxi_svc_desc,
        fail_info: *mut cxi_svc_fail_info,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_destroy_svc(
        dev: *mut cxil_dev,
        svc_id: ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_set_svc_lpr(
        dev: *mut cxil_dev,
        svc_id: ::core::ffi::c_uint,
        lnis_per_rgid: ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_get_svc_lpr(
        dev: *mut cxil_dev,
        svc_id: ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_svc_enable(
        dev: *mut cxil_dev,
        svc_id: ::core::ffi::c_uint,
        enable: bool,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_svc_set_exclusive_cp(
        dev: *mut cxil_dev,
        svc_id: ::core::ffi::c_uint,
        exclusive_cp: bool,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_svc_get_exclusive_cp(
        dev: *mut cxil_dev,
        svc_id: ::core::ffi::c_uint,
        exclusive_cp: *mut bool,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_svc_set_vni_range(
        dev: *mut cxil_dev,
        svc_id: ::core::ffi::c_uint,
        vni_min: u16,
        vni_max: u16,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_svc_get_vni_range(
        dev: *mut cxil_dev,
        svc_id: ::core::ffi::c_uint,
        vni_min: *mut u16,
        vni_max: *mut u16,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_svc_set_netns(
        dev: *mut cxil_dev,
        svc_id: ::core::ffi::c_uint,
        netns: ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_svc_get_netns(
        dev: *mut cxil_dev,
        svc_id: ::core::ffi::c_uint,
        netns: *mut ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_alloc_lni(
        dev: *mut cxil_dev,
        lni: *mut *mut cxil_lni,
        svc_id: ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_destroy_lni(lni: *mut cxil_lni) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_alloc_cp(
        lni: *mut cxil_lni,
        vni: ::core::ffi::c_uint,
        tc: cxi_traffic_class,
        tc_type: cxi_traffic_class_type,
        cp: *mut *mut cxi_cp,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_alloc_trig_cp(
        lni: *mut cxil_lni,
        vni: ::core::ffi::c_uint,
        tc: cxi_traffic_class,
        tc_type: cxi_traffic_class_type,
        cp_type: cxi_trig_cp,
        cp: *mut *mut cxi_cp,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_destroy_cp(cp: *mut cxi_cp) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_modify_cp(
        lni: *mut cxil_lni,
        cp: *mut cxi_cp,
        vni: ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_reserve_domain(
        lni: *mut cxil_lni,
        vni: ::core::ffi::c_uint,
        pid: ::core::ffi::c_uint,
        count: ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_alloc_domain(
        lni: *mut cxil_lni,
        vni: ::core::ffi::c_uint,
        pid: ::core::ffi::c_uint,
        domain: *mut *mut cxil_domain,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_destroy_domain(domain: *mut cxil_domain) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_alloc_cmdq(
        lni: *mut cxil_lni,
        evtq: *mut cxi_eq,
        opts: *const cxi_cq_alloc_opts,
        cmdq: *mut *mut cxi_cq,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_alloc_buf_cmdq(
        lni: *mut cxil_lni,
        evtq: *mut cxi_eq,
        opts: *const cxi_cq_alloc_opts_buf,
        cmdq: *mut *mut cxi_cq,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_destroy_cmdq(cmdq: *mut cxi_cq) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_cmdq_ack_counter(
        cmdq: *mut cxi_cq,
        ack_counter: *mut ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_map(
        lni: *mut cxil_lni,
        va: *mut ::core::ffi::c_void,
        len: usize,
        flags: u32,
        hints: *mut cxi_md_hints,
        md: *mut *mut cxi_md,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_unmap(md: *mut cxi_md) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_update_md(
        md: *mut cxi_md,
        va: *mut ::core::ffi::c_void,
        len: usize,
        flags: u32,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_alloc_pte(
        lni: *mut cxil_lni,
        evtq: *mut cxi_eq,
        opts: *mut cxi_pt_alloc_opts,
        pte: *mut *mut cxil_pte,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_destroy_pte(pte: *mut cxil_pte) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_map_pte(
        pte: *mut cxil_pte,
        domain: *mut cxil_domain,
        pid_offset: ::core::ffi::c_uint,
        is_multicast: bool,
        pte_map: *mut *mut cxil_pte_map,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_unmap_pte(pte_map: *mut cxil_pte_map) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_invalidate_pte_le(
        pte: *mut cxil_pte,
        buffer_id: ::core::ffi::c_uint,
        list: c_ptl_list,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_pte_status(
        pte: *mut cxil_pte,
        status: *mut cxi_pte_status,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_pte_transition_sm(
        pte: *mut cxil_pte,
        drop_count: ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_alloc_evtq(
        lni: *mut cxil_lni,
        md: *const cxi_md,
        attr: *const cxi_eq_attr,
        event_wait: *mut cxil_wait_obj,
        status_wait: *mut cxil_wait_obj,
        evtq: *mut *mut cxi_eq,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_destroy_evtq(evtq: *mut cxi_eq) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_evtq_adjust_reserved_fc(
        evtq: *mut cxi_eq,
        value: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_evtq_resize(
        evtq: *mut cxi_eq,
        queue: *mut ::core::ffi::c_void,
        queue_len: usize,
        queue_md: *mut cxi_md,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_evtq_resize_complete(evtq: *mut cxi_eq) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_clear_wait_obj(wait: *mut cxil_wait_obj);
}
unsafe extern "C" {
    pub fn cxil_alloc_wait_obj(
        lni: *mut cxil_lni,
        wait: *mut *mut cxil_wait_obj,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_destroy_wait_obj(wait: *mut cxil_wait_obj) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_get_wait_obj_fd(wait: *mut cxil_wait_obj) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_alloc_ct(
        lni: *mut cxil_lni,
        wb: *mut c_ct_writeback,
        ct: *mut *mut cxi_ct,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_ct_wb_update(
        ct: *mut cxi_ct,
        wb: *mut c_ct_writeback,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_destroy_ct(ct: *mut cxi_ct) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_map_csr(dev: *mut cxil_dev) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_read_csr(
        dev: *mut cxil_dev,
        csr: ::core::ffi::c_uint,
        value: *mut ::core::ffi::c_void,
        csr_len: usize,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_write_csr(
        dev: *mut cxil_dev,
        csr: ::core::ffi::c_uint,
        value: *const ::core::ffi::c_void,
        csr_len: usize,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_write8_csr(
        dev: *mut cxil_dev,
        csr: ::core::ffi::c_uint,
        offset: ::core::ffi::c_uint,
        value: *const ::core::ffi::c_void,
        csr_len: usize,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_read_cntr(
        dev: *mut cxil_dev,
        cntr: ::core::ffi::c_uint,
        value: *mut u64,
        ts: *mut timespec,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_read_n_cntrs(
        dev: *mut cxil_dev,
        count: ::core::ffi::c_uint,
        cntr: *const c_cntr_type,
        value: *mut u64,
        ts: *mut timespec,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_read_all_cntrs(
        dev: *mut cxil_dev,
        value: *mut u64,
        ts: *mut timespec,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_inbound_wait(dev: *mut cxil_dev) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_sbus_op(
        dev: *mut cxil_dev,
        params: *const cxi_sbus_op_params,
        rsp_data: *mut u32,
        result_code: *mut u8,
        overrun: *mut u8,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_sbus_op_compat(
        dev: *mut cxil_dev,
        ring: ::core::ffi::c_int,
        req_data: u32,
        data_addr: u8,
        rx_addr: u8,
        command: u8,
        rsp_data: *mut u32,
        result_code: *mut u8,
        overrun: *mut u8,
        timeout: ::core::ffi::c_int,
        flags: ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_sbus_op_reset(dev: *mut cxil_dev) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_sbus_op_reset_compat(
        dev: *mut cxil_dev,
        ring: ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_serdes_op(
        dev: *mut cxil_dev,
        port_num: ::core::ffi::c_int,
        serdes_sel: u64,
        op: u64,
        data: u64,
        result: *mut u16,
        timeout: ::core::ffi::c_int,
        flags: ::core::ffi::c_uint,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_get_amo_remap_to_pcie_fadd(
        dev: *mut cxil_dev,
        amo_remap_to_pcie_fadd: *mut ::core::ffi::c_int,
    ) -> ::core::ffi::c_int;
}
unsafe extern "C" {
    pub fn cxil_page_size(base: *mut ::core::ffi::c_void) -> usize;
}
unsafe extern "C" {
    pub fn cxil_is_copy_on_fork() -> bool;
}
