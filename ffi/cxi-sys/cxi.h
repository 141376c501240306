/*
 * The libcxi interface: all its functions, and the host-side structures and
 * constants that they need. Written from the facts in tests/layout/abi.json;
 * tests/layout compares every declaration with them.
 *
 * src/records.rs declares the records that the NIC reads or writes (commands,
 * events, status words).
 */
#ifndef CXIDIAG_CXI_H
#define CXIDIAG_CXI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

/* Sizes of text fields, without the terminating NUL (FRU: with) */
#define CXIL_DEVNAME_MAX 13
#define CXIL_DRVNAME_MAX 8
#define CXIL_FRUDESC_MAX 16

/* Limits of the control plane */
#define CXI_MAX_CQ_COUNT 65536
#define CXI_SVC_MAX_MEMBERS 2
#define CXI_SVC_MAX_VNIS 4
#define CXI_DEFAULT_SVC_ID 1

/* Command queue geometry: bytes of a slot, first usable slot and half-slot */
#define C_CQ_CMD_SIZE 64
#define C_CQ_FIRST_WR_PTR 4
#define C_CQ_FIRST_WR_PTR_32 8

/* Event queue geometry: bytes of a slot, slots never available to events */
#define C_EE_CFG_ECB_SIZE 64
#define C_EQ_RESERVED_EVENT_SLOTS 2U

/* Addressing */
#define CXI_DFA_EP_WIDTH 12
#define CXI_DFA_EXT_WIDTH 5
#define CXI_EP_WIDTH 17
#define CXI_DFA_EP_MASK 4095
#define CXI_DFA_EXT_MASK 31
#define CXI_MATCH_ID_ANY 4294967295U
#define C_DFA_NIC_BITS 20
#define C_DFA_PID_BITS_MIN 6
#define C_DFA_PID_BITS_MAX 9
#define C_PID_ANY 511
#define C_NID_ANY 1048575

/* Numbers of objects on one NIC; the values that mean "none" */
#define C_NUM_TRANSMIT_CQS 1024
#define C_NUM_TARGET_CQS 512
#define C_NUM_EQS 2048
#define C_NUM_CTS 2048
#define C_NUM_PTLTES 2048
#define C_NUM_TLES 2048
#define C_NUM_ACS 1024
#define C_NUM_LACS 8
#define C_NUM_RGIDS 256
#define C_COMM_PROF_PER_CQ 16
#define C_PE_COUNT 4
#define C_EQ_NONE 0
#define C_CT_NONE 0
#define C_AC_NONE 0

/* Platforms reported in cxil_devinfo */
#define C_PLATFORM_ASIC 0
#define C_PLATFORM_NETSIM 1
#define C_PLATFORM_Z1 2
#define C_PLATFORM_FPGA 3

/* Registers that count the time since the NIC was reset: nanoseconds in bits 0
   to 29, seconds in bits 30 to 63 */
#define C_ATU_ERR_ELAPSED_TIME 134217984
#define C_CQ_ERR_ELAPSED_TIME 256
#define C_EE_ERR_ELAPSED_TIME 142606592
#define C_HNI_ERR_ELAPSED_TIME 16777472
#define C_HNI_PML_ERR_ELAPSED_TIME 25166080
#define C_IXE_ERR_ELAPSED_TIME 41943296
#define C_LPE_ERR_ELAPSED_TIME 159383808
#define C_MB_ERR_ELAPSED_TIME 268435712
#define C_MST_ERR_ELAPSED_TIME 167772416
#define C_OXE_ERR_ELAPSED_TIME 176161024
#define C_PARBS_ERR_ELAPSED_TIME 150995200
#define C_PCT_ERR_ELAPSED_TIME 8388864
#define C_PI_ERR_ELAPSED_TIME 276824320
#define C_PI_IPD_ERR_ELAPSED_TIME 285212928
#define C_RMU_ERR_ELAPSED_TIME 33554688

/* The telemetry counters of Cassini 1: their number, and the highest index + 1 */
#define C1_CNTR_COUNT 1426
#define C1_CNTR_SIZE 2528

/* Payload limits of immediate data commands, in bytes */
#define C_MAX_IDC_PAYLOAD_RES 224
#define C_MAX_IDC_PAYLOAD_UNR 192

/* List entry flags */
#define C_LE_EVENT_CT_BYTES 1
#define C_LE_EVENT_CT_OVERFLOW 2
#define C_LE_EVENT_CT_COMM 4
#define C_LE_EVENT_UNLINK_DISABLE 8
#define C_LE_EVENT_SUCCESS_DISABLE 16
#define C_LE_EVENT_COMM_DISABLE 32
#define C_LE_EVENT_LINK_DISABLE 64
#define C_LE_UNRESTRICTED_END_RO 128
#define C_LE_UNRESTRICTED_BODY_RO 256
#define C_LE_UNEXPECTED_HDR_DISABLE 512
#define C_LE_USE_ONCE 1024
#define C_LE_NO_TRUNCATE 2048
#define C_LE_MANAGE_LOCAL 4096
#define C_LE_OP_GET 8192
#define C_LE_OP_PUT 16384
#define C_LE_RESTART_SEQ 32768

enum cxi_traffic_class {
	CXI_TC_DEDICATED_ACCESS = 0,
	CXI_TC_LOW_LATENCY = 1,
	CXI_TC_BULK_DATA = 2,
	CXI_TC_BEST_EFFORT = 3,
	CXI_TC_ETH = 4,
	CXI_TC_MAX = 5,
};

enum cxi_traffic_class_type {
	CXI_TC_TYPE_DEFAULT = 0,
	CXI_TC_TYPE_HRP = 1,
	CXI_TC_TYPE_RESTRICTED = 2,
	CXI_TC_TYPE_COLL_LEAF = 3,
	CXI_TC_TYPE_MAX = 4,
};

/* The LCIDs that a communication profile may get */
enum cxi_trig_cp {
	TRIG_LCID = 0,
	NON_TRIG_LCID = 1,
	ANY_LCID = 2,
};

enum cxi_cq_update_policy {
	CXI_CQ_UPDATE_ALWAYS = 0,
	CXI_CQ_UPDATE_HIGH_FREQ_EMPTY = 1,
	CXI_CQ_UPDATE_LOW_FREQ_EMPTY = 2,
	CXI_CQ_UPDATE_LOW_FREQ = 3,
};

enum cxi_atu_map_flags {
	CXI_MAP_PIN = 1,
	CXI_MAP_ATS = 2,
	CXI_MAP_WRITE = 4,
	CXI_MAP_READ = 8,
	CXI_MAP_FAULT = 16,
	CXI_MAP_NOCACHE = 32,
	CXI_MAP_USER_ADDR = 64,
	CXI_MAP_ATS_PT = 128,
	CXI_MAP_ATS_DYN = 256,
	CXI_MAP_DEVICE = 512,
	CXI_MAP_UNUSED = 1024,
	CXI_MAP_ALLOC_MD = 2048,
	CXI_MAP_PREFETCH = 4096,
};

/* Index of `cxi_rsrc_limits.type` and `cxi_rsrc_use.in_use` */
enum cxi_rsrc_type {
	CXI_RSRC_TYPE_PTE = 0,
	CXI_RSRC_TYPE_TXQ = 1,
	CXI_RSRC_TYPE_TGQ = 2,
	CXI_RSRC_TYPE_EQ = 3,
	CXI_RSRC_TYPE_CT = 4,
	CXI_RSRC_TYPE_LE = 5,
	CXI_RSRC_TYPE_TLE = 6,
	CXI_RSRC_TYPE_AC = 7,
	CXI_RSRC_TYPE_MAX = 8,
};

enum cxi_svc_member_type {
	CXI_SVC_MEMBER_IGNORE = 0,
	CXI_SVC_MEMBER_UID = 1,
	CXI_SVC_MEMBER_GID = 2,
	CXI_SVC_MEMBER_NET_NS = 3,
	CXI_SVC_MEMBER_MAX = 4,
};

enum cassini_version {
	CASSINI_1 = 16,
	CASSINI_2 = 32,
	CASSINI_1_0 = 17,
	CASSINI_1_1 = 18,
	CASSINI_2_0 = 33,
};

enum system_type_identifier {
	CASSINI_MIX = 0,
	CASSINI_1_ONLY = 1,
	CASSINI_2_ONLY = 2,
};

/* Command queue creation flags */
enum {
	CXI_CQ_USER = 1,
	CXI_CQ_IS_TX = 2,
	CXI_CQ_TX_ETHERNET = 4,
	CXI_CQ_TX_WITH_TRIG_CMDS = 8,
};

/* Event queue creation flags */
enum {
	CXI_EQ_USER = 1,
	CXI_EQ_PASSTHROUGH = 2,
	CXI_EQ_INIT_LONG = 4,
	CXI_EQ_TGT_LONG = 8,
	CXI_EQ_DROP_STATUS_DISABLE = 16,
	CXI_EQ_TIMESTAMP_EVENTS = 32,
	CXI_EQ_EC_DISABLE = 64,
	CXI_EQ_REGISTER_PCT = 128,
};

enum c_cmd_type {
	C_CMD_TYPE_IDC = 0,
	C_CMD_TYPE_DMA = 1,
	C_CMD_TYPE_CT = 2,
	C_CMD_TYPE_CQ = 3,
};

enum c_cmd_size {
	C_CMD_SIZE_32B = 0,
	C_CMD_SIZE_64B = 1,
	C_CMD_SIZE_128B = 2,
	C_CMD_SIZE_256B = 3,
};

enum c_dma_op {
	C_CMD_NOOP = 0,
	C_CMD_PUT = 1,
	C_CMD_GET = 2,
	C_CMD_RENDEZVOUS_PUT = 3,
	C_CMD_ATOMIC = 4,
	C_CMD_FETCHING_ATOMIC = 5,
	C_CMD_ETHERNET_TX = 6,
	C_CMD_SMALL_MESSAGE = 7,
	C_CMD_NOMATCH_PUT = 8,
	C_CMD_NOMATCH_GET = 9,
	C_CMD_CSTATE = 10,
	C_CMD_CLOSE = 11,
	C_CMD_CLEAR = 12,
	C_CMD_REDUCTION = 13,
};

enum c_atomic_op {
	C_AMO_OP_MIN = 0,
	C_AMO_OP_MAX = 1,
	C_AMO_OP_SUM = 2,
	C_AMO_OP_LOR = 4,
	C_AMO_OP_LAND = 5,
	C_AMO_OP_BOR = 6,
	C_AMO_OP_BAND = 7,
	C_AMO_OP_LXOR = 8,
	C_AMO_OP_BXOR = 9,
	C_AMO_OP_SWAP = 10,
	C_AMO_OP_CSWAP = 11,
	C_AMO_OP_AXOR = 12,
};

enum c_cswap_op {
	C_AMO_OP_CSWAP_EQ = 0,
	C_AMO_OP_CSWAP_NE = 1,
	C_AMO_OP_CSWAP_LE = 2,
	C_AMO_OP_CSWAP_LT = 3,
	C_AMO_OP_CSWAP_GE = 4,
	C_AMO_OP_CSWAP_GT = 5,
};

enum c_atomic_type {
	C_AMO_TYPE_INT8_T = 0,
	C_AMO_TYPE_UINT8_T = 1,
	C_AMO_TYPE_INT16_T = 2,
	C_AMO_TYPE_UINT16_T = 3,
	C_AMO_TYPE_INT32_T = 4,
	C_AMO_TYPE_UINT32_T = 5,
	C_AMO_TYPE_INT64_T = 6,
	C_AMO_TYPE_UINT64_T = 7,
	C_AMO_TYPE_FLOAT_T = 8,
	C_AMO_TYPE_FLOAT_COMPLEX_T = 9,
	C_AMO_TYPE_DOUBLE_T = 10,
	C_AMO_TYPE_DOUBLE_COMPLEX_T = 11,
	C_AMO_TYPE_UINT128_T = 12,
};

enum c_ct_op {
	C_CMD_CT_NOOP = 0,
	C_CMD_CT_SET = 1,
	C_CMD_CT_GET = 2,
	C_CMD_CT_INC = 3,
	C_CMD_CT_CANCEL = 4,
	C_CMD_CT_TRIG_DMA = 5,
	C_CMD_CT_TRIG_SET = 6,
	C_CMD_CT_TRIG_INC = 7,
	C_CMD_CT_TRIG_EVENT = 8,
};

enum c_cq_op {
	C_CMD_CQ_NOOP = 0,
	C_CMD_CQ_FENCE = 1,
	C_CMD_CQ_LCID = 2,
};

enum c_tgt_op {
	C_CMD_TGT_APPEND = 8,
	C_CMD_TGT_SEARCH = 9,
	C_CMD_TGT_SEARCH_AND_DELETE = 10,
	C_CMD_TGT_UNLINK = 11,
	C_CMD_TGT_SETSTATE = 12,
};

enum c_ptl_list {
	C_PTL_LIST_PRIORITY = 0,
	C_PTL_LIST_OVERFLOW = 1,
	C_PTL_LIST_REQUEST = 2,
	C_PTL_LIST_UNEXPECTED = 3,
};

enum c_ptlte_state {
	C_PTLTE_RESET = 0,
	C_PTLTE_DISABLED = 1,
	C_PTLTE_ENABLED = 2,
	C_PTLTE_SOFTWARE_MANAGED = 3,
	C_PTLTE_ETHERNET = 4,
};

enum c_sc_reason {
	C_SC_FC_EQ_FULL = 0,
	C_SC_FC_NO_MATCH = 1,
	C_SC_FC_UNEXPECTED_FAIL = 2,
	C_SC_FC_REQUEST_FULL = 3,
	C_SC_SM_UNEXPECTED_FAIL = 4,
	C_SC_SM_APPEND_FAIL = 5,
	C_SC_DIS_UNCOR = 6,
};

enum c_event_size {
	C_EVENT_SIZE_NO_EVENT = 0,
	C_EVENT_SIZE_16_BYTE = 1,
	C_EVENT_SIZE_32_BYTE = 2,
	C_EVENT_SIZE_64_BYTE = 3,
};

enum c_event_type {
	C_EVENT_PUT = 0,
	C_EVENT_GET = 1,
	C_EVENT_ATOMIC = 2,
	C_EVENT_FETCH_ATOMIC = 3,
	C_EVENT_PUT_OVERFLOW = 4,
	C_EVENT_GET_OVERFLOW = 5,
	C_EVENT_ATOMIC_OVERFLOW = 6,
	C_EVENT_FETCH_ATOMIC_OVERFLOW = 7,
	C_EVENT_SEND = 8,
	C_EVENT_ACK = 9,
	C_EVENT_REPLY = 10,
	C_EVENT_LINK = 11,
	C_EVENT_SEARCH = 12,
	C_EVENT_STATE_CHANGE = 13,
	C_EVENT_UNLINK = 14,
	C_EVENT_RENDEZVOUS = 15,
	C_EVENT_ETHERNET = 16,
	C_EVENT_COMMAND_FAILURE = 17,
	C_EVENT_TRIGGERED_OP = 18,
	C_EVENT_ETHERNET_FGFC = 19,
	C_EVENT_PCT = 20,
	C_EVENT_MATCH = 21,
	C_EVENT_ERROR = 28,
	C_EVENT_TIMESTAMP = 29,
	C_EVENT_EQ_SWITCH = 30,
	C_EVENT_NULL_EVENT = 31,
};

enum c_return_code {
	C_RC_NO_EVENT = 0,
	C_RC_OK = 1,
	C_RC_UNDELIVERABLE = 2,
	C_RC_PT_DISABLED = 3,
	C_RC_DROPPED = 4,
	C_RC_PERM_VIOLATION = 5,
	C_RC_OP_VIOLATION = 6,
	C_RC_NO_MATCH = 8,
	C_RC_UNCOR = 9,
	C_RC_UNCOR_TRNSNT = 10,
	C_RC_NO_SPACE = 16,
	C_RC_ENTRY_NOT_FOUND = 18,
	C_RC_NO_TARGET_CONN = 19,
	C_RC_NO_TARGET_MST = 20,
	C_RC_NO_TARGET_TRS = 21,
	C_RC_SEQUENCE_ERROR = 22,
	C_RC_NO_MATCHING_CONN = 23,
	C_RC_INVALID_DFA_FORMAT = 24,
	C_RC_VNI_NOT_FOUND = 25,
	C_RC_PTLTE_NOT_FOUND = 26,
	C_RC_PTLTE_SW_MANAGED = 27,
	C_RC_SRC_ERROR = 28,
	C_RC_MST_CANCELLED = 29,
	C_RC_HRP_CONFIG_ERROR = 30,
	C_RC_HRP_RSP_ERROR = 31,
	C_RC_HRP_RSP_DISCARD = 32,
	C_RC_INVALID_AC = 33,
	C_RC_PAGE_PERM_ERROR = 34,
	C_RC_ATS_ERROR = 35,
	C_RC_NO_TRANSLATION = 36,
	C_RC_PAGE_REQ_ERROR = 37,
	C_RC_PCIE_ERROR_POISONED = 38,
	C_RC_PCIE_UNSUCCESS_CMPL = 39,
	C_RC_AMO_INVAL_OP_ERROR = 40,
	C_RC_AMO_ALIGN_ERROR = 41,
	C_RC_AMO_FP_INVALID = 42,
	C_RC_AMO_FP_UNDERFLOW = 43,
	C_RC_AMO_FP_OVERFLOW = 44,
	C_RC_AMO_FP_INEXACT = 45,
	C_RC_ILLEGAL_OP = 46,
	C_RC_INVALID_ENDPOINT = 47,
	C_RC_RESTRICTED_UNICAST = 48,
	C_RC_CMD_ALIGN_ERROR = 49,
	C_RC_CMD_INVALID_ARG = 50,
	C_RC_INVALID_EVENT = 51,
	C_RC_ADDR_OUT_OF_RANGE = 52,
	C_RC_CONN_CLOSED = 53,
	C_RC_CANCELED = 54,
	C_RC_NO_MATCHING_TRS = 55,
	C_RC_NO_MATCHING_MST = 56,
	C_RC_DELAYED = 57,
	C_RC_AMO_LENGTH_ERROR = 58,
	C_RC_PKTBUF_ERROR = 59,
	C_RC_RESOURCE_BUSY = 60,
	C_RC_FLUSH_TRANSLATION = 61,
	C_RC_TRS_PEND_RSP = 62,
};

/* A telemetry counter, by its index */
enum c_cntr_type;

/* Opaque types */
struct cxil_wait_obj;
struct cxil_pte_map;

/* Records of the NIC, declared in src/records.rs */
struct cxi_cmd32;
struct c_cq_status;
struct c_eq_status;
struct c_ct_writeback;

/* src/records.rs declares the bit fields of this register */
union c_ee_cfg_eq_sw_state {
	uint64_t qw;
};

struct cxil_devinfo {
	unsigned int dev_id;
	union {
		unsigned int nic_addr;
		unsigned int nid;
	};
	unsigned int pid_bits;
	unsigned int pid_count;
	unsigned int pid_granule;
	unsigned int min_free_shift;
	unsigned int rdzv_get_idx;
	char device_name[14];
	char driver_name[9];
	unsigned int vendor_id;
	unsigned int device_id;
	unsigned int device_rev;
	unsigned int device_proto;
	unsigned int device_platform;
	uint16_t num_ptes;
	uint16_t num_txqs;
	uint16_t num_tgqs;
	uint16_t num_eqs;
	uint16_t num_cts;
	uint16_t num_acs;
	uint16_t num_tles;
	uint16_t num_les;
	uint16_t pci_domain;
	uint8_t pci_bus;
	uint8_t pci_device;
	uint8_t pci_function;
	size_t link_mtu;
	size_t link_speed;
	uint8_t link_state;
	int uc_nic;
	unsigned int pct_eq;
	enum cassini_version cassini_version;
	char fru_description[16];
	bool is_vf;
	enum system_type_identifier system_type_identifier;
};

struct cxil_dev {
	struct cxil_devinfo info;
};

struct cxil_device_list {
	unsigned int count;
	struct cxil_devinfo info[];
};

struct cxi_limits {
	uint16_t max;
	uint16_t res;
};

struct cxi_rsrc_limits {
	union {
		struct {
			struct cxi_limits ptes;
			struct cxi_limits txqs;
			struct cxi_limits tgqs;
			struct cxi_limits eqs;
			struct cxi_limits cts;
			struct cxi_limits les;
			struct cxi_limits tles;
			struct cxi_limits acs;
		};
		struct cxi_limits type[8];
	};
};

union cxi_svc_member {
	unsigned int uid;
	unsigned int gid;
};

struct cxi_svc_desc {
	uint8_t restricted_members : 1;
	uint8_t restricted_vnis : 1;
	uint8_t restricted_tcs : 1;
	uint8_t resource_limits : 1;
	uint8_t enable : 1;
	uint8_t is_system_svc : 1;
	uint8_t cntr_pool_id : 2;
	uint8_t num_vld_vnis;
	uint16_t vnis[4];
	bool tcs[5];
	struct {
		union cxi_svc_member svc_member;
		enum cxi_svc_member_type type;
	} members[2];
	struct cxi_rsrc_limits limits;
	unsigned int svc_id;
};

struct cxil_svc_list {
	unsigned int count;
	struct cxi_svc_desc descs[];
};

struct cxi_rsrc_use {
	unsigned int svc_id;
	unsigned int tle_pool_id;
	uint16_t in_use[8];
};

struct cxil_svc_rsrc_list {
	unsigned int count;
	struct cxi_rsrc_use rsrcs[];
};

struct cxi_svc_fail_info {
	uint16_t rsrc_avail[8];
	bool no_le_pools;
	bool no_tle_pools;
	bool no_cntr_pools;
};

struct cxil_lni {
	unsigned int id;
};

struct cxi_cp {
	union {
		unsigned int vni;
		unsigned int vni_pcp;
	};
	enum cxi_traffic_class tc;
	enum cxi_traffic_class_type tc_type;
	unsigned int lcid;
};

struct cxil_domain {
	unsigned int vni;
	unsigned int pid;
};

struct cxi_md {
	uint64_t iova;
	uint64_t va;
	size_t len;
	uint8_t lac;
	int page_shift;
	int huge_shift;
	unsigned int id;
};

struct cxi_md_hints {
	int page_shift;
	int huge_shift;
	int ptg_mode;
	bool ptg_mode_valid;
	int dmabuf_fd;
	unsigned long dmabuf_offset;
	bool dmabuf_valid;
};

struct cxi_eq_attr {
	void *queue;
	size_t queue_len;
	uint64_t flags;
	unsigned int status_thresh_base;
	unsigned int status_thresh_delta;
	unsigned int status_thresh_count;
	unsigned int ec_delay;
	unsigned int cpu_affinity;
	unsigned int reserved_slots;
};

struct cxi_eq {
	unsigned int byte_size;
	union c_ee_cfg_eq_sw_state sw_state;
	uint64_t *sw_state_addr;
	uint64_t last_ts_sec;
	uint64_t last_ts_ns;
	unsigned int rd_offset;
	unsigned int prev_rd_offset;
	unsigned int eqn;
	void *context;
	union {
		uint8_t *events;
		struct c_eq_status *status;
	};
};

struct cxi_cq_alloc_opts {
	unsigned int count;
	enum cxi_cq_update_policy policy;
	unsigned int stat_cnt_pool;
	uint32_t flags;
	unsigned int lcid;
	unsigned int lpe_cdt_thresh_id;
};

struct cxi_cq_alloc_opts_buf {
	struct cxi_cq_alloc_opts opts;
	void *buf;
	bool is_host_mem;
	int dmabuf_fd;
	unsigned long dmabuf_offset;
};

struct cxi_cq {
	unsigned int size;
	uint64_t *wp_addr;
	uint8_t *ll_64;
	uint8_t *ll_128a;
	uint8_t *ll_128u;
	union {
		struct cxi_cmd32 *cmds32;
		volatile struct c_cq_status *status;
	};
	uint64_t rp32;
	unsigned int idx;
	unsigned int size32;
	uint64_t wp32;
	uint64_t hw_wp32;
};

struct cxi_ct {
	uint64_t *doorbell;
	unsigned int ctn;
	struct c_ct_writeback *wb;
};

struct cxi_pt_alloc_opts {
	uint64_t en_event_match : 1;
	uint64_t clr_remote_offset : 1;
	uint64_t en_flowctrl : 1;
	uint64_t use_long_event : 1;
	uint64_t lossless : 1;
	uint64_t en_restricted_unicast_lm : 1;
	uint64_t use_logical : 1;
	uint64_t is_matching : 1;
	uint64_t do_space_check : 1;
	uint64_t en_align_lm : 1;
	uint64_t en_sw_hw_st_chng : 1;
	uint64_t ethernet : 1;
	uint64_t signal_invalid : 1;
	uint64_t signal_underflow : 1;
	uint64_t signal_overflow : 1;
	uint64_t signal_inexact : 1;
	uint64_t en_match_on_vni : 1;
};

struct cxil_pte {
	unsigned int ptn;
};

struct cxi_pte_status {
	uint32_t drop_count;
	uint8_t state;
	uint16_t les_reserved;
	uint16_t les_allocated;
	uint16_t les_max;
	uint64_t *ule_offsets;
	uint16_t ule_count;
};

struct cxi_sbus_op_params {
	uint32_t req_data;
	uint8_t data_addr;
	uint8_t rx_addr;
	uint8_t command;
	unsigned int delay;
	unsigned int timeout;
	unsigned int poll_interval;
};

int cxil_get_device_list(struct cxil_device_list **dev_list);
void cxil_free_device_list(struct cxil_device_list *dev_list);
int cxil_open_device(uint32_t dev_id, struct cxil_dev **dev);
void cxil_close_device(struct cxil_dev *dev);
int cxil_get_svc(struct cxil_dev *dev,
		unsigned int svc_id,
		struct cxi_svc_desc *svc_desc);
int cxil_get_svc_list(struct cxil_dev *dev, struct cxil_svc_list **svc_list);
void cxil_free_svc_list(struct cxil_svc_list *svc_list);
int cxil_get_svc_rsrc_use(struct cxil_dev *dev,
		unsigned int svc_id,
		struct cxi_rsrc_use *rsrcs);
int cxil_get_svc_rsrc_list(struct cxil_dev *dev,
		struct cxil_svc_rsrc_list **rsrc_list);
void cxil_free_svc_rsrc_list(struct cxil_svc_rsrc_list *rsrc_list);
int cxil_update_svc(struct cxil_dev *dev,
		const struct cxi_svc_desc *desc,
		struct cxi_svc_fail_info *fail_info);
int cxil_alloc_svc(struct cxil_dev *dev,
		const struct cxi_svc_desc *desc,
		struct cxi_svc_fail_info *fail_info);
int cxil_destroy_svc(struct cxil_dev *dev, unsigned int svc_id);
int cxil_set_svc_lpr(struct cxil_dev *dev,
		unsigned int svc_id,
		unsigned int lnis_per_rgid);
int cxil_get_svc_lpr(struct cxil_dev *dev, unsigned int svc_id);
int cxil_svc_enable(struct cxil_dev *dev, unsigned int svc_id, bool enable);
int cxil_svc_set_exclusive_cp(struct cxil_dev *dev,
		unsigned int svc_id,
		bool exclusive_cp);
int cxil_svc_get_exclusive_cp(struct cxil_dev *dev,
		unsigned int svc_id,
		bool *exclusive_cp);
int cxil_svc_set_vni_range(struct cxil_dev *dev,
		unsigned int svc_id,
		uint16_t vni_min,
		uint16_t vni_max);
int cxil_svc_get_vni_range(struct cxil_dev *dev,
		unsigned int svc_id,
		uint16_t *vni_min,
		uint16_t *vni_max);
int cxil_svc_set_netns(struct cxil_dev *dev,
		unsigned int svc_id,
		unsigned int netns);
int cxil_svc_get_netns(struct cxil_dev *dev,
		unsigned int svc_id,
		unsigned int *netns);
int cxil_alloc_lni(struct cxil_dev *dev,
		struct cxil_lni **lni,
		unsigned int svc_id);
int cxil_destroy_lni(struct cxil_lni *lni);
int cxil_alloc_cp(struct cxil_lni *lni,
		unsigned int vni,
		enum cxi_traffic_class tc,
		enum cxi_traffic_class_type tc_type,
		struct cxi_cp **cp);
int cxil_alloc_trig_cp(struct cxil_lni *lni,
		unsigned int vni,
		enum cxi_traffic_class tc,
		enum cxi_traffic_class_type tc_type,
		enum cxi_trig_cp cp_type,
		struct cxi_cp **cp);
int cxil_destroy_cp(struct cxi_cp *cp);
int cxil_modify_cp(struct cxil_lni *lni, struct cxi_cp *cp, unsigned int vni);
int cxil_reserve_domain(struct cxil_lni *lni,
		unsigned int vni,
		unsigned int pid,
		unsigned int count);
int cxil_alloc_domain(struct cxil_lni *lni,
		unsigned int vni,
		unsigned int pid,
		struct cxil_domain **domain);
int cxil_destroy_domain(struct cxil_domain *domain);
int cxil_alloc_cmdq(struct cxil_lni *lni,
		struct cxi_eq *evtq,
		const struct cxi_cq_alloc_opts *opts,
		struct cxi_cq **cmdq);
int cxil_alloc_buf_cmdq(struct cxil_lni *lni,
		struct cxi_eq *evtq,
		const struct cxi_cq_alloc_opts_buf *opts,
		struct cxi_cq **cmdq);
int cxil_destroy_cmdq(struct cxi_cq *cmdq);
int cxil_cmdq_ack_counter(struct cxi_cq *cmdq, unsigned int *ack_counter);
int cxil_map(struct cxil_lni *lni,
		void *va,
		size_t len,
		uint32_t flags,
		struct cxi_md_hints *hints,
		struct cxi_md **md);
int cxil_unmap(struct cxi_md *md);
int cxil_update_md(struct cxi_md *md, void *va, size_t len, uint32_t flags);
int cxil_alloc_pte(struct cxil_lni *lni,
		struct cxi_eq *evtq,
		struct cxi_pt_alloc_opts *opts,
		struct cxil_pte **pte);
int cxil_destroy_pte(struct cxil_pte *pte);
int cxil_map_pte(struct cxil_pte *pte,
		struct cxil_domain *domain,
		unsigned int pid_offset,
		bool is_multicast,
		struct cxil_pte_map **pte_map);
int cxil_unmap_pte(struct cxil_pte_map *pte_map);
int cxil_invalidate_pte_le(struct cxil_pte *pte,
		unsigned int buffer_id,
		enum c_ptl_list list);
int cxil_pte_status(struct cxil_pte *pte, struct cxi_pte_status *status);
int cxil_pte_transition_sm(struct cxil_pte *pte, unsigned int drop_count);
int cxil_alloc_evtq(struct cxil_lni *lni,
		const struct cxi_md *md,
		const struct cxi_eq_attr *attr,
		struct cxil_wait_obj *event_wait,
		struct cxil_wait_obj *status_wait,
		struct cxi_eq **evtq);
int cxil_destroy_evtq(struct cxi_eq *evtq);
int cxil_evtq_adjust_reserved_fc(struct cxi_eq *evtq, int value);
int cxil_evtq_resize(struct cxi_eq *evtq,
		void *queue,
		size_t queue_len,
		struct cxi_md *queue_md);
int cxil_evtq_resize_complete(struct cxi_eq *evtq);
void cxil_clear_wait_obj(struct cxil_wait_obj *wait);
int cxil_alloc_wait_obj(struct cxil_lni *lni, struct cxil_wait_obj **wait);
int cxil_destroy_wait_obj(struct cxil_wait_obj *wait);
int cxil_get_wait_obj_fd(struct cxil_wait_obj *wait);
int cxil_alloc_ct(struct cxil_lni *lni,
		struct c_ct_writeback *wb,
		struct cxi_ct **ct);
int cxil_ct_wb_update(struct cxi_ct *ct, struct c_ct_writeback *wb);
int cxil_destroy_ct(struct cxi_ct *ct);
int cxil_map_csr(struct cxil_dev *dev);
int cxil_read_csr(struct cxil_dev *dev,
		unsigned int csr,
		void *value,
		size_t csr_len);
int cxil_write_csr(struct cxil_dev *dev,
		unsigned int csr,
		const void *value,
		size_t csr_len);
int cxil_write8_csr(struct cxil_dev *dev,
		unsigned int csr,
		unsigned int offset,
		const void *value,
		size_t csr_len);
int cxil_read_cntr(struct cxil_dev *dev,
		unsigned int cntr,
		uint64_t *value,
		struct timespec *ts);
int cxil_read_n_cntrs(struct cxil_dev *dev,
		unsigned int count,
		const enum c_cntr_type *cntr,
		uint64_t *value,
		struct timespec *ts);
int cxil_read_all_cntrs(struct cxil_dev *dev,
		uint64_t *value,
		struct timespec *ts);
int cxil_inbound_wait(struct cxil_dev *dev);
int cxil_sbus_op(struct cxil_dev *dev,
		const struct cxi_sbus_op_params *params,
		uint32_t *rsp_data,
		uint8_t *result_code,
		uint8_t *overrun);
int cxil_sbus_op_compat(struct cxil_dev *dev,
		int ring,
		uint32_t req_data,
		uint8_t data_addr,
		uint8_t rx_addr,
		uint8_t command,
		uint32_t *rsp_data,
		uint8_t *result_code,
		uint8_t *overrun,
		int timeout,
		unsigned int flags);
int cxil_sbus_op_reset(struct cxil_dev *dev);
int cxil_sbus_op_reset_compat(struct cxil_dev *dev, int ring);
int cxil_serdes_op(struct cxil_dev *dev,
		int port_num,
		uint64_t serdes_sel,
		uint64_t op,
		uint64_t data,
		uint16_t *result,
		int timeout,
		unsigned int flags);
int cxil_get_amo_remap_to_pcie_fadd(struct cxil_dev *dev,
		int *amo_remap_to_pcie_fadd);
size_t cxil_page_size(void *base);
bool cxil_is_copy_on_fork(void);

#endif
