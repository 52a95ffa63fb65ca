"""Well-known names: every label, annotation, ConfigMap, data key, resource and API group, defined once.

The comment of each name says what it means and who writes it. The writers are:

- user: whoever writes the job's manifest
- administrator: whoever runs the cluster
- owner: the controller that creates the pods (Volcano's or Ringwise's job controller, an operator)
- scheduler: Ringwise, or Volcano with Huawei's plugin
- device plugin: the component on each NPU node that mounts the chips
- ClusterD: Huawei's component that merges the reports of all nodes
- kubelet, API server: Kubernetes

No other source file spells these names as a string: it imports them. Exceptions are sentences (docstrings
and reasons) and the board profiles. `placement` does not import this module: names are read and written above
it. Values that a label may have belong to the rule that reads them.
"""

from __future__ import annotations

from typing import NamedTuple

# -- Resources --------------------------------------------------------------------------------------

#: Prefix of every NPU resource; a resource that begins with it counts chips.
CHIP_RESOURCE_PREFIX = "huawei.com/"
#: How the names of chip resources begin; as annotations of a pod they name its chips (rule N8).
CHIP_RESOURCE_FAMILIES = ("huawei.com/Ascend", "huawei.com/npu")
#: Whole chips of the 910, 910B and A3 boards. Reported by the device plugin, requested by the user.
ASCEND910 = "huawei.com/Ascend910"
#: Whole chips of the 350, 850 and 950 boards. Reported by the device plugin, requested by the user.
NPU = "huawei.com/npu"
#: Cores of chips, for dynamic vNPUs; as an annotation of a pod its chip and template.
NPU_CORE = "huawei.com/npu-core"
#: What Huawei's device plugin says in the message of a pod that it could not serve (V16).
SEGMENT_FAILED, NO_NPU_RESOURCE = "NPUSegmentFailed", "NoNPUResource"
#: Resource of other vendors' cards; the nodeorder plugin weighs it as Volcano does.
NVIDIA_GPU = "nvidia.com/gpu"

# -- Labels of jobs, PodGroups and pods -------------------------------------------------------------

#: Class of a job for switch affinity: normal-schema, large-model-schema or null. User.
TOR_AFFINITY = "tor-affinity"
#: `soft`: blocks of a job may be split if no SuperPoD has room for a whole block. User.
SUPER_POD_AFFINITY = "super-pod-affinity"
#: 310 and 310P: whether a pod stays on one card (`card`) or may cross cards (`chip`). User.
NPU_310_STRATEGY = "npu-310-strategy"
#: The inference service that the job belongs to; its jobs are placed near each other. User.
INFER_SERVICE_ID = "inferserviceid"
#: `on`: after a fault, at first only the affected pods are replaced. User.
POD_RESCHEDULING = "pod-rescheduling"
#: `on` or `pause`: processes are recovered in place. User, then ClusterD.
PROCESS_RECOVER_ENABLE = "process-recover-enable"
#: What is done after a fault: grace, force, off, external-grace or external-force. User.
FAULT_SCHEDULING = "fault-scheduling"
#: How many times a job is restarted after one of its pods failed: 0 to 100. User.
FAULT_RETRY_TIMES = "fault-retry-times"
#: What is done with a pod on sub-healthy hardware: ignore, graceExit, forceExit or hotSwitch. User.
SUB_HEALTHY_STRATEGY = "subHealthyStrategy"
#: Its values other than to ignore sub-healthy hardware.
SUB_HEALTH_REACTIONS = frozenset({"graceExit", "forceExit", "hotSwitch"})
#: On a pod: Separate, SubHealth or software. ClusterD.
FAULT_TYPE = "fault-type"
#: Role of the pod in its training job; a `worker` is never the master. Owner.
REPLICA_TYPE = "training.kubeflow.org/replica-type"
#: The inference service of the job; faults never restart its healthy pods. Owner.
INFERENCE_SERVICE = "ome.io/inferenceservice"
#: Name of the application; healthy pods of two MindIE applications are never restarted. User.
APP = "app"
#: 310P: the job requests Atlas 300I Duo cards. User.
DUO = "duo"
#: 310P Duo: the pods of the job run distributed over the chips of one node. User.
DISTRIBUTED = "distributed"
#: Chip family of the job, for the device plugin and Huawei's operator. User.
RING_CONTROLLER = "ring-controller.atlas"
#: The pod was created by an operator that expects the rank table from the scheduler. Owner.
OPERATOR_NAME = "training.kubeflow.org/operator-name"
#: Set on the pods of an AscendJob. Huawei's operator.
ASCEND_OPERATOR = "ascendjob-controller"
#: Job of the pod, its role in the job and its index in this role, with the names of Kubeflow and with the
#: former short names. Owner.
OPERATOR_JOB_NAME = "training.kubeflow.org/job-name"
REPLICA_INDEX = "training.kubeflow.org/replica-index"
SHORT_JOB_NAME = "job-name"
SHORT_REPLICA_TYPE = "replica-type"
SHORT_REPLICA_INDEX = "replica-index"
#: Job of the pod and its index in the job. Kubernetes' job controller.
KUBERNETES_JOB_NAME = "batch.kubernetes.io/job-name"
JOB_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
#: Framework of an AscendJob: mindspore, pytorch or tensorflow. User.
FRAMEWORK = "framework"

# -- Annotations of jobs, PodGroups and pods: requests ----------------------------------------------

#: The board on which the job runs. User.
SCHEDULE_POLICY = "huawei.com/schedule_policy"
#: Chips of one logical SuperPoD (block). User.
SP_BLOCK = "sp-block"
#: Chips of one logical rack. User.
RA_BLOCK = "ra-block"
#: `true`: all pods of the job share one UB-memory domain. User.
UB_MEMORY = "huawei.com/schedule_ubmemory"
#: `pod`: after a fault, only the faulty pods are restarted. User.
RECOVER_POLICY_PATH = "huawei.com/recover_policy_path"
#: How many pods of a ReplicaSet or StatefulSet must be placed together. User.
SCHEDULE_MIN_AVAILABLE = "huawei.com/schedule_minAvailable"
#: `enabled`: the pod requests no chips and is not checked against the board. User.
SKIP_ASCEND_PLUGIN = "huawei.com/skip-ascend-plugin"
#: Rank of the pod in collective communication. User or owner; the scheduler writes it if it is missing.
RANK_INDEX = "hccl/rankIndex"
#: How long the job is expected to run, for forecasts and simulation. User.
EXPECTED_DURATION = "ringwise.io/expected-duration"
#: Cost of a restart of the job: the time from its eviction until it has reached its previous progress. User.
RESTART_COST = "ringwise.io/restart-cost"
#: Whether the job may be moved so that another job can start. `true`: by the scheduler itself; not set: only
#: by `ringwise defrag --apply`; `false`: never. User.
MOVABLE = "ringwise.io/movable"
#: When the max run time of a job ends: RFC 3339. Scheduler, on the PodGroup.
RUN_TIME_ENDS = "ringwise.io/max-run-time-end"
#: Result of a simulated pod: succeed, fail or forever. User of the lab.
SIMULATE = "ringwise.io/simulate"
#: Processes of the job are restarted in place; Huawei's components read the values. User.
RECOVER_STRATEGY = "recover-strategy"
#: How long those components wait for a replacement pod. User.
WAIT_RESCHEDULE_TIMEOUT = "wait-reschedule-timeout"
#: Faults of the job are handled outside of the scheduler. User.
PROCESS_RECOVER_STRATEGY = "ProcessRecoverStrategy"
#: Faults that the job tolerates for a time, by code and by level: `code[:seconds],...`. User.
FILTER_FAULT_CODE = "huawei.com/schedule.filter.faultCode"
FILTER_FAULT_LEVEL = "huawei.com/schedule.filter.faultLevel"
#: Prefixes of the user's annotations for SuperPoDs and racks: sp-block, sp-fit, ra-block.
SUPERPOD_REQUEST_PREFIX = "sp-"
RACK_REQUEST_PREFIX = "ra-"

# -- Annotations of jobs, PodGroups and pods: Volcano's ---------------------------------------------

#: PodGroup of the pod, with the two names that Volcano reads. Owner.
GROUP_NAME = "scheduling.k8s.io/group-name"
VOLCANO_GROUP_NAME = "scheduling.volcano.sh/group-name"
#: How many pods of a Deployment, ReplicaSet, StatefulSet or Job must be placed together. User, on the owner.
GROUP_MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
#: Prefix of the names of PodGroups that the controller creates for the pods of a Deployment, StatefulSet or
#: Kubernetes Job, or for a single pod; it is followed by the uid of the owner. Controller.
ORDINARY_GROUP_PREFIX = "podgroup-"
#: How many pods the owner of such a PodGroup creates if it is more than one, so that a pod that is bound
#: before the others exist is not treated as a single pod. Controller.
GROUP_REPLICAS = "ringwise.io/replicas"
#: Annotation of such a PodGroup while its owner, a Kubernetes Job, is suspended. Controller.
GROUP_SUSPENDED = "ringwise.io/suspended"
#: Label of the PodGroups of vcjobs that Ringwise's controller manages. Controller.
JOB_CONTROLLER = "ringwise.io/job-controller"
#: Name of the user who created the object. On custom resources of Ringwise, and on the topmost owner of a job
#: (vcjob, Job, Deployment, AscendJob, pod ...), its pod templates, pods and PodGroup. Admission; owners copy
#: it.
USER = "ringwise.io/user"
#: Condition of a Namespace: its message contains the UsageLimits that apply to it, as JSON. Scheduler.
NAMESPACE_LIMITS = "ringwise.io/usage-limits"
#: Name of the user who set the approval of a MovePlan. Admission.
APPROVED_BY = "ringwise.io/approved-by"
#: Label of the ClusterRoles that are parts of `ringwise-operator`: `true`. Chart, operator.
AGGREGATE_TO_OPERATOR = "ringwise.io/aggregate-to-operator"
#: Queue of a pod without a PodGroup, or of a job. User or owner.
QUEUE_NAME = "volcano.sh/queue-name"
SCHEDULING_QUEUE_NAME = "scheduling.volcano.sh/queue-name"
#: Task of the pod in its vcjob. Owner.
TASK_SPEC = "volcano.sh/task-spec"
#: Number of the pod in its task. Owner.
TASK_INDEX = "volcano.sh/task-index"
#: Number of the pod's partition in its task, if the task has a `partitionPolicy`. Owner.
PARTITION_ID = "volcano.sh/partition-id"
#: Priority of the pods of a task among the pods of their job, before their own priority. User.
TASK_PRIORITY = "volcano.sh/task-priority"
#: Whether the pod may be preempted. User.
PREEMPTABLE = "volcano.sh/preemptable"
#: How long a pod must have run before it can be preempted, reclaimed or moved: a Go duration (plugin cdp).
#: Label or annotation, copied from the vcjob. User.
COOLDOWN_TIME = "volcano.sh/cooldown-time"
#: The longest such time for jobs of a Queue: a Go duration, one hour if it is not set. Administrator, on the
#: Queue.
LONGEST_COOLDOWN = "ringwise.io/max-cooldown"
#: When a job wrote its last checkpoint: RFC 3339. User, on pods or the PodGroup.
CHECKPOINT_TIME = "ringwise.io/checkpoint-time"
#: "true": checkpoint times of jobs of a Queue are used to compute the work that an eviction loses.
#: Administrator, on the Queue.
BELIEVE_CHECKPOINTS = "ringwise.io/trust-checkpoints"
#: Warning before an eviction: when, why and for which job the pod is going to be evicted. Scheduler.
EVICTED = "ringwise.io/eviction-notice"
#: When the pod may run in a zone; how many pods may be evicted. Copied to the PodGroup, but not read by
#: Ringwise. User.
REVOCABLE_ZONE = "volcano.sh/revocable-zone"
JDB_MIN_AVAILABLE = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
#: vcjob of the pod, its namespace, its version, its template and its retries. Owner.
JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
JOB_VERSION = "volcano.sh/job-version"
TEMPLATE_UID = "volcano.sh/template-uid"
JOB_RETRY_COUNT = "volcano.sh/job-retry-count"
#: Suffix of the name of the ConfigMap with the host names of a vcjob.
HOST_LISTS_SUFFIX = "-svc"
#: Path of a queue in the queue hierarchy, and the weight of each level. Administrator, on the Queue.
HIERARCHY = "volcano.sh/hierarchy"
HIERARCHY_WEIGHTS = "volcano.sh/hierarchy-weights"
#: "true": the queue was closed with its parent queue, and is opened with it. Controller, on the Queue.
CLOSED_BY_PARENT = "volcano.sh/closed-by-parent"
#: "true": the pod gets a scheduling gate of this name, until its job is admitted to its queue.
#: User, on pods; the webhook adds the gate, the scheduler removes it.
QUEUE_GATE = "scheduling.volcano.sh/queue-allocation-gate"
#: How many pods of a job must remain, or may be missing, when pods are evicted for other jobs. User, on pods.
JDB_MIN_AVAILABLE = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
#: How long a job may wait before it is admitted even if the resources are admitted to other jobs (plugin
#: sla), and its former name. A Go duration. User, on the PodGroup or the vcjob.
SLA_WAITING_TIME = "volcano.sh/sla-waiting-time"
SLA_WAITING_TIME_OLD = "sla-waiting-time"
#: Volcano's plugin that places jobs in HyperNodes: if it is not configured, HyperNodes have no effect.
NETWORK_TOPOLOGY_AWARE = "network-topology-aware"
#: The network topology of pods whose owner creates no PodGroup: `hard` or `soft`, and the highest tier of
#: HyperNodes. User, on pods; copied to their PodGroup.
NETWORK_TOPOLOGY_MODE = "volcano.sh/network-topology-mode"
NETWORK_TOPOLOGY_HIGHEST_TIER = "volcano.sh/network-topology-highest-tier"
#: The lowest HyperNode with all pods of a job with a network topology. Scheduler, on the PodGroup.
JOB_ALLOCATED_HYPER_NODE = "volcano.sh/job-allocated-hypernode"
#: The group of a node (plugin nodegroup). Label. Administrator.
NODE_GROUP_NAME = "volcano.sh/nodegroup-name"
#: What a queue may use in each node group: JSON that maps group to resource to quantity. Administrator, on
#: the Queue.
NODE_GROUP_LIMITS = "volcano.sh/nodegroup-resource-limits"

# -- Annotations of pods: results of scheduling (rule N8: owned by scheduler and device plugin) ------
# `huawei.com/<resource>`, the chips that the scheduler chose, is the resource name itself.

#: When the scheduler placed the pod, in nanoseconds; the device plugin serves the pod with the smallest value
#: first and then sets it to 18446744073709551615. Scheduler, then device plugin.
PREDICATE_TIME = "predicate-time"
#: Mounted chips. Device plugin; for pods of an operator or with whole nodes, first the scheduler.
ASCEND_REAL = "huawei.com/AscendReal"
#: Device IDs that the kubelet chose; they are not the mounted chips. Device plugin.
KUBELET_DEVICES = "huawei.com/kltDev"
#: The pod's part of the rank table, for Ascend910 and for npu resources. Scheduler or device plugin.
RANK_TABLE_910 = "ascend.kubectl.kubernetes.io/ascend-910-configuration"
RANK_TABLE_NPU = "ascend.kubectl.kubernetes.io/ascend-npu-configuration"
#: Whether the job has several pods with chips. Scheduler.
DISTRIBUTED_JOB = "distributed-job"
#: How the pod's switch was taken: 0 padding, 1 shared, 2 exclusive (rule S2). Scheduler.
IS_SHARED_TOR = "isSharedTor"
#: Whether this switch was healthy (0) or not (1) when the pod was scheduled. Scheduler.
IS_HEALTHY = "isHealthy"
#: Address of the pod's switch, if it is shared. Scheduler; read by ClusterD for the network controller.
SHARED_TOR_IP = "sharedTorIp"
#: Logical SuperPoD (block) of the pod. Scheduler.
SUPER_POD_RANK = "super-pod-rank"
#: Physical SuperPoD of the pod. Scheduler.
SUPER_POD_ID = "super-pod-id"
#: Logical rack of the pod, numbered across the whole job (rule R2). Scheduler.
LOGICAL_RACK = "ringwise.io/logical-rack"
#: The pod returned to its previous node while only part of its job was rescheduled. Scheduler.
RESCHEDULE_IN_PLACE = "reschedule-in-place"
#: `Unhealthy-<fault type>`: another component must delete the pod (mode `external-*`). Scheduler.
POD_STATUS = "huawei.com/pod-status"
#: Why the scheduler does not restart the job of this failed pod, although `fault-retry-times` is set (F5).
#: The controller then ends the job. Scheduler.
RESTART_REFUSED = "ringwise.io/restart-rejected"
#: How many consecutive pods before this one the kubelet rejected at admission (F5). Controller.
KUBELET_REJECTIONS = "ringwise.io/kubelet-rejections"
#: Share of a chip: percent of the cores, megabytes of the memory, and the policy. Labels are the request of
#: the user; annotations are what the scheduler assigned (rule V4).
AICORE_QUOTA = "huawei.com/scheduler.softShareDev.aicoreQuota"
HBM_QUOTA = "huawei.com/scheduler.softShareDev.hbmQuota"
SHARE_POLICY = "huawei.com/scheduler.softShareDev.policy"
#: Values of the last, with their numbers in the file that a container reads.
SHARE_POLICIES = {"fixed-share": 1, "elastic": 2, "best-effort": 3}
#: Prefix of the annotations with the pod's blocks.
SUPER_POD_PREFIX = "super-pod-"

#: Annotations that only the scheduler and the device plugin may write (rule N8). On a pod that is not bound
#: they mean nothing. The chip resources (CHIP_RESOURCE_PREFIX) belong to them, too.
OWNED_ANNOTATIONS = frozenset(
    {
        PREDICATE_TIME,
        ASCEND_REAL,
        KUBELET_DEVICES,
        RANK_TABLE_910,
        RANK_TABLE_NPU,
        DISTRIBUTED_JOB,
        IS_SHARED_TOR,
        IS_HEALTHY,
        SHARED_TOR_IP,
        SUPER_POD_RANK,
        SUPER_POD_ID,
        LOGICAL_RACK,
        NPU_CORE,
        AICORE_QUOTA,
        HBM_QUOTA,
        SHARE_POLICY,
    }
)

# -- Annotations of pods: hot switch to a backup pod. Huawei's components. ----------------------------

#: On the pod that is to be replaced: the name of its backup. Operator.
BACKUP_NEW_POD = "backupNewPodName"
#: On the backup, until it has taken over: the name of the pod that it replaces. Operator.
BACKUP_SOURCE_POD = "backupSourcePodName"
#: `delete`: the scheduler must delete the pod.
NEED_VOLCANO_OPERATION = "needVolcanoOpe"
#: The pod takes part in a hot switch.
IN_HOT_SWITCH = "inHotSwitchFlow"
#: `backup`: the pod waits to replace another pod.
POD_TYPE = "podType"

# -- Labels of nodes --------------------------------------------------------------------------------

#: Chip family of the node. Administrator or device plugin.
ACCELERATOR = "accelerator"
#: Board of the node; also in a job's node selector. Administrator or device plugin.
ACCELERATOR_TYPE = "accelerator-type"
#: CPU architecture of the node, and its two values. Administrator.
HOST_ARCH = "host-arch"
HOST_ARCH_ARM = "huawei-arm"
HOST_ARCH_X86 = "huawei-x86"
#: Physical SuperPoD of the node, if the annotation is missing. Device plugin.
SUPERPOD_LABEL = "huawei.com/topotree.superpodid"
#: Rack of the node and its number in the SuperPoD, on boards with racks. Device plugin.
RACK_LABEL = "huawei.com/topotree.rackid"
SERVER_LABEL = "huawei.com/topotree.serverid"
#: Chip, AI cores, driver and memory of the node, and the kind of its inference cards. Device plugin.
CHIP_NAME_LABEL = "node.kubernetes.io/npu.chip.name"
SERVER_TYPE_LABEL = "servertype"
DRIVER_VERSION_LABEL = "huawei.com/driver.version"
CHIP_MEMORY_LABEL = "mind-cluster/npu-chip-memory"
INFERENCE_CARD_LABEL = "infer-card-type"
#: "true": the device plugin reports 100 units for each chip, which pods share. Administrator.
SOFT_SHARING_LABEL = "huawei.com/scheduler.chip1softsharedev.enable"
#: Memory of each chip of a node with soft shares: `64G`. Administrator.
CHIP_MEMORY_LABEL = "mind-cluster/npu-chip-memory"
#: Labels of pods that request a dynamic vNPU: performance level, and use of the video unit. User.
VNPU_LEVEL = "vnpu-level"
VNPU_DVPP = "vnpu-dvpp"
#: Nodes on which Huawei's components run, and the value of the label. Administrator.
WORKER_SELECTOR = "workerselector"
WORKER_NODE = "dls-worker-node"
#: Name of the node as a label. Kubelet.
HOSTNAME = "kubernetes.io/hostname"
#: CPU architecture and operating system of the node. Kubelet.
KUBERNETES_ARCH = "kubernetes.io/arch"
KUBERNETES_OS = "kubernetes.io/os"

# -- Annotations and taints of nodes ----------------------------------------------------------------

#: Chips of the node with their addresses, as JSON. Device plugin.
BASE_DEVICE_INFOS = "baseDeviceInfos"
#: Physical SuperPoD of the node. Device plugin.
SUPERPOD_ANNOTATION = "superPodID"
#: Number of the node inside its SuperPoD. Device plugin.
SERVER_INDEX = "serverIndex"
#: Kind of server: A3, npu or empty. Device plugin.
SERVER_TYPE = "serverType"
CARD_TYPE = "cardType"
#: Rack of the node inside its SuperPoD. Device plugin.
RACK_ANNOTATION = "rackID"
#: Chips whose reset failed. Device plugin.
RESET_INFO = "ResetInfo"
#: Taint of a cordoned node. API server.
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
#: Prefix of the taints that Kubernetes sets on nodes.
NODE_TAINT_PREFIX = "node.kubernetes.io/"

# -- Prefixes of annotations ------------------------------------------------------------------------

#: Prefixes of names that Volcano, Kubernetes, Ringwise and Huawei's components define.
VOLCANO_PREFIX = "volcano.sh/"
VOLCANO_SCHEDULING_PREFIX = "scheduling.volcano.sh/"
KUBERNETES_SCHEDULING_PREFIX = "scheduling.k8s.io/"
RINGWISE_PREFIX = "ringwise.io/"
RANK_TABLE_PREFIX = "ascend.kubectl.kubernetes.io/"
HCCL_PREFIX = "hccl/"
#: Prefix of node labels in support bundles, and only there: the node matches this expression of HyperNodes.
BUNDLE_PATTERN = "ringwise.io/bundle-pattern"

# -- Namespaces and ConfigMaps ----------------------------------------------------------------------

#: Namespace of Kubernetes' own components, of the device plugins and of the switch topology.
KUBE_SYSTEM = "kube-system"
#: Namespace of the scheduler.
VOLCANO_SYSTEM = "volcano-system"
#: Namespace of ClusterD and NodeD.
MINDX_DL = "mindx-dl"

#: Report of one node (in kube-system): the prefix is followed by the node's name. Device plugin.
DEVICE_INFO_PREFIX = "mindx-dl-deviceinfo-"
#: Its data key with the free, unhealthy and recovering chips.
DEVICE_INFO_KEY = "DeviceInfoCfg"
#: Suffixes of the names of chip lists in it; the list of free chips has only the name of the resource.
UNHEALTHY_SUFFIX = "-Unhealthy"
NETWORK_UNHEALTHY_SUFFIX = "-NetworkUnhealthy"
RECOVERING_SUFFIX = "-Recovering"
FAULT_SUFFIX = "-Fault"
#: Its other data keys: faults of the switches inside the node, chips that an operator separated, why chips
#: keep a level after the fault has ended, and a description.
SWITCH_INFO_KEY = "SwitchInfoCfg"
MANUALLY_SEPARATE_KEY = "ManuallySeparateNPU"
UPGRADE_REASON_KEY = "UpgradeFaultReason"
DESCRIPTION_KEY = "Description"
#: Its data key with the chips that each pod has, by the pod's uid (rule N8). Ringwise's device plugin.
MOUNTED_CHIPS_KEY = "RingwiseMountedChips"
#: Its data key with the shares of chips that pods have, by the pod's uid: chip, percent, megabytes and policy
#: (rule V4). The same.
MOUNTED_SHARES_KEY = "RingwiseMountedShares"
#: Its data key with the chips that pods without a mount record may use, by the uid of the pod (rule N8). The
#: same.
DOUBTFUL_CHIPS_KEY = "RingwiseUnconfirmedChips"
#: Its data key with the device IDs that the kubelet lists for each pod (namespace/name) in its pod-resources
#: API; empty if the kubelet does not respond. The same.
KUBELET_LISTING_KEY = "RingwiseKubeletDevices"
#: Its data key with the chips that `ringwise isolate` took out of service; they are not in the lists of
#: faults (rule F4). The same.
ISOLATED_CHIPS_KEY = "RingwiseIsolatedChips"
#: Its data key with the utilization of chips by their current pods: mean in percent, and the measured
#: seconds, by name of the chip. Only if the driver reports it. The same.
UTILIZATION_KEY = "RingwiseUtilization"
#: Levels of fault codes and rules about them (in kube-system). Administrator.
FAULT_CONFIG_MAP = "mindx-dl-fault-config"
#: Custom board files (in the namespace of Ringwise). Chart.
BOARDS_CONFIG_MAP = "ringwise-boards"
#: Annotation of the pods that read them: a checksum, so that the pods are restarted after a change. The same.
BOARDS_CHECKSUM = "ringwise.io/boards-checksum"
#: Label of these reports, which ClusterD reads. Device plugin and NodeD.
NODE_REPORT_LABEL = "mx-consumer-cim"
#: Reports of many nodes (in mindx-dl): the prefix is followed by a number. ClusterD.
CLUSTER_INFO_PREFIX = "cluster-info-device-"
#: Health of one node while it has a fault (in mindx-dl), and its data key; the prefix is followed by the name
#: of the node. NodeD.
NODE_INFO_PREFIX = "mindx-dl-nodeinfo-"
NODE_INFO_KEY = "NodeInfo"
#: The same for many nodes (in mindx-dl); its entries have the names of NodeD's ConfigMaps. ClusterD.
CLUSTER_NODE_INFO = "cluster-info-node-cm"
#: Health of the switches inside many nodes (in mindx-dl): the prefix is followed by a number; and the prefix
#: of its entries, followed by the name of the node. ClusterD.
CLUSTER_SWITCH_INFO_PREFIX = "cluster-info-switch-"
SWITCH_INFO_PREFIX = "mindx-dl-switchinfo-"
#: Label of ClusterD's reports, which the scheduler reads. ClusterD.
CLUSTER_REPORT_LABEL = "mx-consumer-volcano"

#: Switch topology (in kube-system), and its data keys: the list and the number of layers. Administrator.
TOR_NODE_CONFIG_MAP = "basic-tor-node-cm"
TOR_INFO_KEY = "tor_info"
TOR_LEVEL_KEY = "tor_level"
#: State of the switches (in volcano-system), and its data key. Scheduler.
TOR_SHARE_CONFIG_MAP = "tor-share-cm"
TOR_SHARE_KEY = "global-tor-info"

#: On a node: with `UnHealthy` it is unhealthy, regardless of the reports of NodeD. Operator.
NODE_HEALTHY_STATUS = "NodeHealthyStatus"

#: Faulty nodes and the remaining retries of jobs (in volcano-system), and its data keys. Scheduler.
FAULT_NODES_CONFIG_MAP = "vcjob-fault-npu-cm"
FAULT_NODE_KEY = "fault-node"
REMAINING_RETRIES_KEY = "remain-retry-times"
#: Why jobs were rescheduled recently (in mindx-dl), and its data key. Scheduler.
RESCHEDULE_REASON_CONFIG_MAP = "job-reschedule-reason"
RESCHEDULE_RECORDS_KEY = "recent-reschedule-records"
#: What the processes of a job read about its rescheduling (in its namespace), and its data keys. User,
#: scheduler, ClusterD and Huawei's device plugin.
RESET_CONFIG_PREFIX = "reset-config-"
RESET_KEY = "reset.json"
CHECK_CODE_KEY = "checkCode"
RESTART_TYPE_KEY = "restartType"
POD_RESCHEDULE = "podReschedule"
#: The leader record (rule F1; in volcano-system): data for the next leader, with a data key for each table.
#: If it is too large for one object, it continues in others. Scheduler.
RESCHEDULING_CONFIG_MAP = "ringwise-rescheduling"
RECORD_CONFIG_MAPS = (
    RESCHEDULING_CONFIG_MAP,
    f"{RESCHEDULING_CONFIG_MAP}-2",
    f"{RESCHEDULING_CONFIG_MAP}-3",
    f"{RESCHEDULING_CONFIG_MAP}-4",
)
#: Tables of a leader record that a leader could not read, as it found them (in volcano-system). Scheduler.
UNREAD_RECORD_CONFIG_MAP = f"{RESCHEDULING_CONFIG_MAP}-unread"
#: ConfigMaps with accounting documents, `ringwise-accounting-00` to `-63`, and the key in them. Scheduler.
ACCOUNTING_CONFIG_MAPS = "ringwise-accounting-"
ACCOUNTING_KEY = "accounting.json"

#: Configuration of the scheduler (in volcano-system), and its data keys. Administrator.
SCHEDULER_CONFIG_MAP = "volcano-scheduler-configmap"
SCHEDULER_CONFIG_KEY = "volcano-scheduler.conf"
SCHEDULER_CONFIG_KEY_CI = "volcano-scheduler-ci.conf"
#: Configuration of the controller (in volcano-system), and its data key. Administrator.
CONTROLLER_CONFIG_MAP = "volcano-controller-configmap"
CONTROLLER_CONFIG_KEY = "volcano-controller.conf"

# -- Schedulers, leases and priority classes --------------------------------------------------------

#: `schedulerName` of pods that Volcano, and therefore Ringwise, schedules. User. Jobs of Volcano and of
#: operators without a schedulerName get this one.
VOLCANO_SCHEDULER = "volcano"
#: The scheduler names that Ringwise serves by default: Volcano's and its own.
SCHEDULER_NAMES = (VOLCANO_SCHEDULER, "ringwise")
#: `schedulerName` that the API server sets by default; a Pod without one is read as if it had this one.
DEFAULT_SCHEDULER = "default-scheduler"
#: Leases for leader election; also the names of the two components' objects. Scheduler, controller.
SCHEDULER_LEASE = "ringwise-scheduler"
CONTROLLER_LEASE = "ringwise-controller"
#: Deployments of Volcano that Ringwise replaces. Administrator.
VOLCANO_SCHEDULER_DEPLOYMENT = "volcano-scheduler"
VOLCANO_CONTROLLER_DEPLOYMENT = "volcano-controllers"
#: Priority classes of Kubernetes' own pods. API server.
SYSTEM_CLUSTER_CRITICAL = "system-cluster-critical"
SYSTEM_NODE_CRITICAL = "system-node-critical"
#: They are for what the cluster itself needs, and mean nothing in other namespaces than these.
SYSTEM_CLASSES = frozenset({SYSTEM_CLUSTER_CRITICAL, SYSTEM_NODE_CRITICAL})
SYSTEM_NAMESPACES = frozenset({KUBE_SYSTEM, VOLCANO_SYSTEM, MINDX_DL})

# -- Volumes ----------------------------------------------------------------------------------------

#: Annotation of a claim: the node for which its volume is made. Scheduler; the provisioner removes it where
#: it cannot make a volume for that node.
SELECTED_NODE = "volume.kubernetes.io/selected-node"
#: Annotations of a claim that has its volume for good, and of a volume that was given to its claim.
#: Kubernetes' volume controller; the second one the scheduler, too.
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER = "pv.kubernetes.io/bound-by-controller"
#: The class of a claim or volume, before there was a field for it. User, administrator.
STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"
#: Annotation of the StorageClass of claims that name none. Administrator.
DEFAULT_STORAGE_CLASS = "storageclass.kubernetes.io/is-default-class"
#: Labels of nodes and volumes: where they are, in two spellings. A volume may have several values: `a__b`.
#: Kubernetes' cloud controller, administrator.
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"

#: The provisioner of classes whose volumes a lab makes. User.
LAB_PROVISIONER = "lab.ringwise.io"

# -- Labels of HyperNodes ----------------------------------------------------------------------------

#: Source of a HyperNode: `label` or another source. Volcano's controller and Ringwise's.
TOPOLOGY_SOURCE = "volcano.sh/network-topology-source"
#: The topology type of a HyperNode that Ringwise's controller created; it does not change others. Controller.
TOPOLOGY_TYPE = "ringwise.io/topology-type"

# -- Labels of objects that Ringwise creates ---------------------------------------------------------

#: On pods of a scheduler in shadow mode, which does not bind pods. Chart.
SHADOW = "ringwise.io/shadow"
#: Kubernetes' recommended labels. The client that creates the object.
APP_NAME = "app.kubernetes.io/name"
APP_COMPONENT = "app.kubernetes.io/component"
APP_PART_OF = "app.kubernetes.io/part-of"
APP_MANAGED_BY = "app.kubernetes.io/managed-by"
#: Name of a namespace as a label. API server.
NAMESPACE_NAME = "kubernetes.io/metadata.name"

# -- Environment variables of pods ------------------------------------------------------------------

#: Number of the pod in its task, in the two spellings that Volcano sets. Owner.
TASK_INDEX_VARIABLE = "VC_TASK_INDEX"
OLD_TASK_INDEX_VARIABLE = "VK_TASK_INDEX"
#: The chips that Ascend Docker Runtime mounts into a container; of several values the last counts. Device
#: plugin, or the user, from the annotation with the chips of the pod.
VISIBLE_DEVICES = "ASCEND_VISIBLE_DEVICES"

# -- API groups -------------------------------------------------------------------------------------

#: Volcano's groups of vcjobs and of PodGroups and Queues, Kubernetes' of PriorityClasses.
BATCH_GROUP = "batch.volcano.sh"
SCHEDULING_GROUP = "scheduling.volcano.sh"
BUS_GROUP = "bus.volcano.sh"
OPERATOR_GROUP = "ringwise.io"
KUBERNETES_SCHEDULING_GROUP = "scheduling.k8s.io"
#: Those of AscendJobs, and of PyTorchJobs and the like.
ASCEND_JOB_GROUP = "mindxdl.gitee.com"
KUBEFLOW_GROUP = "kubeflow.org"
#: Group and version, as `apiVersion` has it: vcjobs, PodGroups and Queues, Commands.
BATCH_API = "batch.volcano.sh/v1alpha1"
SCHEDULING_API = "scheduling.volcano.sh/v1beta1"
BUS_API = "bus.volcano.sh/v1alpha1"
TOPOLOGY_API = "topology.volcano.sh/v1alpha1"
#: Kubernetes' own.
OPERATOR_API = "ringwise.io/v1alpha1"
PRIORITY_API = "scheduling.k8s.io/v1"
LEASE_API = "coordination.k8s.io/v1"
NETWORK_POLICY_API = "networking.k8s.io/v1"
DISRUPTION_API = "policy/v1"
DEPLOYMENT_API = "apps/v1"
KUBERNETES_JOB_API = "batch/v1"
STORAGE_API = "storage.k8s.io/v1"
WEBHOOK_API = "admissionregistration.k8s.io/v1"
ADMISSION_API = "admission.k8s.io/v1"
TOKEN_API = "authentication.k8s.io/v1"
ACCESS_API = "authorization.k8s.io/v1"
CREDENTIAL_API = "client.authentication.k8s.io/v1"
CREDENTIAL_API_BETA = "client.authentication.k8s.io/v1beta1"

# -- API resources ----------------------------------------------------------------------------------


class ApiResource(NamedTuple):
    """One kind of object. `version` is its group and version as written in apiVersion."""

    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def group(self) -> str:
        return self.version.rpartition("/")[0]


#: Those that are both watched and written or asked for; others stand where they are used.
NODES = ApiResource("v1", "Node", "nodes", namespaced=False)
PODS = ApiResource("v1", "Pod", "pods")
CONFIG_MAPS = ApiResource("v1", "ConfigMap", "configmaps")
POD_GROUPS = ApiResource(SCHEDULING_API, "PodGroup", "podgroups")
HYPER_NODES = ApiResource(TOPOLOGY_API, "HyperNode", "hypernodes", namespaced=False)
QUEUES = ApiResource(SCHEDULING_API, "Queue", "queues", namespaced=False)
CLAIMS = ApiResource("v1", "PersistentVolumeClaim", "persistentvolumeclaims")
VOLUMES = ApiResource("v1", "PersistentVolume", "persistentvolumes", namespaced=False)
DAEMON_SETS = ApiResource(DEPLOYMENT_API, "DaemonSet", "daemonsets")
VCJOBS = ApiResource(BATCH_API, "Job", "jobs")
#: What operators want: custom resources of this project.
ISOLATIONS = ApiResource(OPERATOR_API, "Isolation", "isolations", namespaced=False)
NODE_RESERVATIONS = ApiResource(OPERATOR_API, "NodeReservation", "nodereservations", namespaced=False)
MOVE_PLANS = ApiResource(OPERATOR_API, "MovePlan", "moveplans", namespaced=False)
USAGE_LIMITS = ApiResource(OPERATOR_API, "UsageLimit", "usagelimits", namespaced=False)

# -- Python ------------------------------------------------------------------------------------------

#: Entry-point group of installed packages with plugins and actions. Their authors.
PLUGIN_ENTRY_POINTS = "ringwise.plugins"
#: Entry-point group of commands in packages of their own. The package ringwise-bench.
COMMAND_ENTRY_POINTS = "ringwise.commands"
