/* A library with the symbols of libdcmi.so, for the test of the binding.
 *
 * Two cards: card 0 with two chips (logic 0 and 1, physical 4 and 5), card 3 with one (logic 2, physical 2).
 * When test_second_generation is set, the functions dcmiv2_* serve an A5 board with two chips instead (logic 0
 * and 1, physical 3 and 1). The structures are declared here by their documented layout, apart from the binding's. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct chip_info { char type[32], name[32], version[32]; uint32_t cores; char npu_name[32]; };
struct board_info { uint32_t board, pcb, bom, slot; };
struct hbm_info { uint64_t size; uint32_t frequency; uint64_t usage; int32_t temperature; uint32_t bandwidth; };
struct ip_addr { uint8_t bytes[16]; int32_t type; };
struct pcie_info { uint32_t vendor, subvendor, device, subdevice; int32_t domain; uint32_t bus, slot, function; uint8_t reserve[32]; };
struct spod_info { uint32_t sdid, scale, superpod, server, chassis, kind, reserve[6]; };
struct event_filter { uint64_t flag; uint32_t event; uint8_t severity, node_type, reserve[32]; };
struct fault_event { uint32_t event; uint16_t device; uint8_t node_type, node, sub_type, sub, severity, assertion; int32_t serial, notify; uint64_t raised; char name[256], extra[32]; uint8_t reserve[32]; };
struct event { int32_t type; union { struct fault_event fault; } u; };
typedef void (*callback)(struct event *);

_Static_assert(sizeof(struct chip_info) == 132, "chip_info_v2");
_Static_assert(sizeof(struct hbm_info) == 32, "hbm_info");
_Static_assert(sizeof(struct ip_addr) == 20, "ip_addr");
_Static_assert(sizeof(struct pcie_info) == 64, "pcie_info_all");
_Static_assert(sizeof(struct spod_info) == 48, "spod_info");
_Static_assert(sizeof(struct event_filter) == 48, "event_filter");
_Static_assert(sizeof(struct fault_event) == 352, "dms_fault_event");
_Static_assert(sizeof(struct event) == 360, "dcmi_event");

static int initialised = 0;
static int dropped_card = -1;
static callback subscriber = 0;

/* Steered by the test. */
int test_init_code = 0;
int test_second_generation = 0;
int test_inits = 0;
/* A card of which every function returns a code, or never returns. */
int test_failing_card = -1, test_failing_code = 0, test_hanging_card = -1;
/* Answers that no driver should give. */
int test_card_count = 2, test_code_count = -1, test_chip_count = -1, test_list_code = 0, test_logic = -1;
const char *test_name = 0;
int test_network_code = 0, test_network_result = 0;
static int guard(int card) {
    while (card == test_hanging_card) usleep(1000);
    return card == test_failing_card ? test_failing_code : 0;
}
#define GUARD(card) do { int code = guard(card); if (code) return code; } while (0)
void test_drop(int card) { dropped_card = card; }
void test_fire(uint32_t code, uint16_t logic, uint8_t severity, uint8_t assertion, uint64_t raised) {
    struct event event;
    memset(&event, 0, sizeof event);
    event.u.fault.event = code;
    event.u.fault.device = logic;
    event.u.fault.severity = severity;
    event.u.fault.assertion = assertion;
    event.u.fault.raised = raised;
    if (subscriber) subscriber(&event);
}

int dcmi_init(void) { test_inits++; initialised = 1; test_list_code = 0; return test_second_generation ? -8255 : test_init_code; }
int dcmi_get_dcmi_version(char *text, unsigned int length) { snprintf(text, length, "24.1.rc2"); return 0; }
int dcmi_get_card_list(int *count, int *list, int length) {
    if (!initialised || length < 2) return -8001;
    if (test_list_code) return test_list_code;
    *count = test_card_count; list[0] = 0; list[1] = 3;
    return 0;
}
int dcmi_get_device_num_in_card(int card, int *number) {
    GUARD(card);
    *number = test_chip_count >= 0 && card == 3 ? test_chip_count : card == 0 ? 2 : 1;
    return 0;
}
int dcmi_get_device_logic_id(int *logic, int card, int device) {
    GUARD(card);
    *logic = card == 0 ? device : test_logic < -1 ? test_logic : 2;
    return 0;
}
int dcmi_get_device_phyid_from_logicid(unsigned int logic, unsigned int *physical) {
    static const unsigned int table[3] = {4, 5, 2};
    if (logic > 2) return -8007;
    *physical = table[logic];
    return 0;
}
/* The chips of card 0 are linked by HCCS; card 3 is behind PCIe. */
int dcmi_get_topo_info_by_device_id(int card, int device, int other, int chip, int *path) {
    GUARD(card);
    *path = card == other ? 3 : 2;
    return 0;
}
int dcmi_get_device_type(int card, int device, int *type) { *type = 0; return 0; }
int dcmi_get_device_chip_info_v2(int card, int device, struct chip_info *info) {
    GUARD(card);
    strcpy(info->type, "Ascend"); strcpy(info->name, "910B3"); strcpy(info->version, "V1");
    if (test_name && card == 3) memcpy(info->name, test_name, 32);
    info->cores = 20;
    return 0;
}
int dcmi_get_device_board_info(int card, int device, struct board_info *info) { info->board = 0xb0; info->slot = 7; return 0; }
int dcmi_get_product_type(int card, int device, char *text, int length) { snprintf(text, length, "Atlas 900 A3"); return 0; }
int dcmi_get_device_hbm_info(int card, int device, struct hbm_info *info) {
    info->size = 65536; info->usage = 1024; info->temperature = 41; info->frequency = 1600; info->bandwidth = 3;
    return 0;
}
int dcmi_get_device_ip(int card, int device, int type, int port, struct ip_addr *address, struct ip_addr *mask) {
    if (type != 1 || port != 0) return -8001;
    if (card == 3) {
        static const uint8_t six[16] = {0xfd, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9};
        if (address->type != 1) return -8255;
        memcpy(address->bytes, six, 16);
        return 0;
    }
    if (address->type == 1) return -8255;
    address->bytes[0] = 192; address->bytes[1] = 168; address->bytes[2] = 20; address->bytes[3] = 100 + device;
    return 0;
}
int dcmi_get_device_pcie_info_v2(int card, int device, struct pcie_info *info) {
    info->domain = 0; info->bus = 0xc1; info->slot = card; info->function = device;
    return 0;
}
int dcmi_get_device_die_v2(int card, int device, int kind, uint32_t *words) {
    if (kind != 1) return -8001;
    for (int at = 0; at < 5; at++) words[at] = 0xA0 + at;
    return 0;
}
int dcmi_get_device_info(int card, int device, int main, unsigned int sub, void *buffer, unsigned int *size) {
    struct spod_info *info = buffer;
    if (main != 12 || sub != 1 || *size != sizeof *info) return -8001;
    memset(info, 0, sizeof *info);
    info->sdid = 100 + card + device; info->superpod = card == 3 ? 0xffffffffu : 1; info->server = 6; info->chassis = 2;
    return 0;
}
int dcmi_get_device_health(int card, int device, unsigned int *health) {
    GUARD(card);
    if (card == dropped_card) return -8012;
    *health = 0;
    return 0;
}
int dcmi_get_device_errorcode_v2(int card, int device, int *count, unsigned int *list, unsigned int length) {
    if (length != 128) return -8001;
    *count = test_code_count != -1 ? test_code_count : device == 1 ? 2 : 0;
    list[0] = 0x80E18402u; list[1] = 0x81078603u;
    return 0;
}
int dcmi_subscribe_fault_event(int card, int device, struct event_filter filter, callback function) {
    if (card != -1 || device != -1 || filter.flag || filter.severity) return -8001;
    subscriber = function;
    return 0;
}
int dcmi_get_device_temperature(int card, int device, int *value) { *value = 55; return 0; }
int dcmi_get_device_power_info(int card, int device, int *value) { *value = 3105; return 0; }
int dcmi_get_device_voltage(int card, int device, unsigned int *value) { *value = 90; return 0; }
int dcmi_get_device_utilization_rate(int card, int device, int type, unsigned int *value) { *value = type == 2 ? 17 : 99; return 0; }
int dcmi_get_device_share_enable(int card, int device, int *value) {
    if (card == 3) return -8255;
    *value = device == 0;
    return 0;
}
int dcmi_get_mainboard_id(int card, int device, unsigned int *board) { *board = 0x18; return 0; }
int dcmi_get_device_network_health(int card, int device, int *result) {
    GUARD(card);
    *result = card == 3 ? test_network_result : 0;
    return card == 3 ? test_network_code : 0;
}

/* The second generation. */
struct eid_info { uint8_t raw[16]; uint32_t index; } __attribute__((aligned(8)));
_Static_assert(sizeof(struct eid_info) == 24, "dcmi_urma_eid_info");
int dcmiv2_init(void) { return test_second_generation ? 0 : -8255; }
int dcmiv2_get_device_list(int *list, int *count, int length) { *count = 2; list[0] = 0; list[1] = 1; return 0; }
int dcmiv2_get_chip_phy_id_by_dev_id(unsigned int logic, unsigned int *physical) { *physical = logic ? 1 : 3; return 0; }
int dcmiv2_get_device_chip_info(int logic, struct chip_info *info) {
    strcpy(info->type, "Ascend"); strcpy(info->name, "Ascend950PR"); strcpy(info->version, "V2"); info->cores = 32;
    return 0;
}
int dcmiv2_get_device_board_info(int logic, struct board_info *info) { info->board = 0x1a; return 0; }
int dcmiv2_get_mainboard_id(int logic, unsigned int *board) { *board = 0x6c; return 0; }
int dcmiv2_get_device_hbm_info(int logic, struct hbm_info *info) { info->size = 131072; info->usage = 7; return 0; }
int dcmiv2_get_device_type(int logic, int *type) { *type = 0; return 0; }
int dcmiv2_get_device_info(int logic, int main, unsigned int sub, void *buffer, unsigned int *size) {
    struct spod_info *info = buffer;
    if (main != 12 || sub != 1 || *size != sizeof *info) return -8001;
    memset(info, 0, sizeof *info);
    info->sdid = 7 + logic; info->superpod = 5; info->server = 2; info->chassis = 9; info->kind = 1;
    return 0;
}
int dcmiv2_get_device_pcie_info(int logic, struct pcie_info *info) { info->bus = 0xa0 + logic; return 0; }
int dcmiv2_get_device_die_id(int logic, int kind, uint32_t *words) {
    if (kind != 2) return -8001;
    for (int at = 0; at < 5; at++) words[at] = 0xD0 + at;
    return 0;
}
int dcmiv2_get_device_health(int logic, unsigned int *health) { *health = 0; return logic == dropped_card ? -8012 : 0; }
int dcmiv2_get_device_error_code_list(int logic, int *count, unsigned int *list, unsigned int length) {
    *count = logic; list[0] = 0x8C2FA009u;
    return 0;
}
int dcmiv2_get_dcmi_version(char *text, int length) { snprintf(text, length, "26.0"); return 0; }
int dcmiv2_subscribe_fault_event(int logic, struct event_filter filter, callback function) {
    if (logic != -1 || filter.flag) return -8001;
    subscriber = function;
    return 0;
}
int dcmiv2_get_device_temperature(int logic, int *value) { *value = 44; return 0; }
int dcmiv2_get_urma_device_cnt(int logic, unsigned int *count) { *count = 3; return 0; }
int dcmiv2_get_eid_list_by_urma_dev_index(int logic, unsigned int index, struct eid_info *list, unsigned int *count) {
    if (*count < 2 || index > 2) return -8001;
    if (index == 2) return -8005;
    memset(list, 0, 2 * sizeof *list);
    for (unsigned int at = 0; at < 2; at++) { list[at].raw[0] = 0x10 + index; list[at].raw[15] = at; list[at].index = at; }
    *count = 2;
    return 0;
}
/* dcmi_get_device_frequency is left out: a library may lack a symbol. */
