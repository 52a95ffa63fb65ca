/* A library with the symbols of liblingqu-dcmi.so, for the test of the binding. Structures by their layout. */
#include <stdint.h>
#include <string.h>

struct alarm {
    uint32_t event, sub_type;
    uint16_t peer_device, peer_port, chip, port;
    uint8_t severity, assertion;
    char reserve[6];
    uint32_t serial, notify;
    uint64_t raised;
    uint8_t parameters[40];
    char info[32];
};
struct filter { uint32_t flag, type, event; uint8_t severity; uint32_t chip; };
typedef void (*callback)(struct alarm *);
_Static_assert(sizeof(struct alarm) == 112, "LqDcmiEvent");
_Static_assert(sizeof(struct filter) == 20, "lq_dcmi_event_filter");

static callback subscriber = 0;
static struct alarm alarms[2] = {
    {0x00f1fef5, 155912, 1, 3, 0, 7, 2, 1, {0}, 0, 0, 1700000000000ull},
    {0x00f103b0, 0xffffffff, 0, 0xffff, 1, 0xffff, 3, 1, {0}, 0, 0, 0},
};

/* Steered by the test. */
int test_init_code = 0, test_inits = 0, test_reads = 0, test_code = 0;
unsigned int test_count = 2;
void test_fire(uint8_t assertion) {
    struct alarm alarm = alarms[0];
    alarm.port = 8;
    alarm.assertion = assertion;
    if (subscriber) subscriber(&alarm);
}

int lq_dcmi_init(void) { test_inits++; return test_init_code; }
int lq_dcmi_subscribe_fault_event(struct filter filter, callback function) {
    if (filter.flag || filter.chip) return -1;
    subscriber = function;
    return 0;
}
int lq_dcmi_get_fault_info(unsigned int length, unsigned int *count, struct alarm *list) {
    test_reads++;
    if (length != 128) return -1;
    if (test_code) return test_code;
    memcpy(list, alarms, sizeof alarms);
    *count = test_count;
    return 0;
}
