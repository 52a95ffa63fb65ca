{{- define "ringwise.selected" -}}
app.kubernetes.io/name: ringwise
app.kubernetes.io/component: {{ . }}
{{- end }}

{{- /* Labels of an object. list: root, component or "" for what belongs to none */ -}}
{{- define "ringwise.labels" -}}
{{- $root := index . 0 }}
{{- with index . 1 }}
{{- include "ringwise.selected" . }}
{{- else }}
{{- "app.kubernetes.io/name: ringwise" }}
{{- end }}
app.kubernetes.io/part-of: ringwise
app.kubernetes.io/instance: {{ $root.Release.Name }}
app.kubernetes.io/version: {{ $root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* Labels of a pod. They do not change with the version of the chart, which alone does not justify replacing pods. list: root, component, values */ -}}
{{- define "ringwise.podLabels" -}}
{{ include "ringwise.selected" (index . 1) }}
app.kubernetes.io/part-of: ringwise
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- with (index . 2).podLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* The security context of a pod of the user of the image. */ -}}
{{- define "ringwise.unprivileged" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{- /* The security context of a container without privileges. */ -}}
{{- define "ringwise.restricted" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities:
    drop: [ALL]
{{- end }}

{{- /* Metadata of an object for another operator. dict: root, name, labels */ -}}
{{- define "ringwise.foreignMeta" -}}
name: {{ .name }}
namespace: {{ .root.Release.Namespace }}
labels:
  {{- $ours := include "ringwise.labels" (list .root "") | fromYaml }}
  {{- toYaml (merge (dict) (.labels | default dict) $ours) | nindent 2 }}
{{- end }}

{{- define "ringwise.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- /* "true" where admission policies are made: the API server has them, and this is not shadow mode. */ -}}
{{- define "ringwise.policies" -}}
{{- $known := or (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy") (semverCompare ">=1.30.0-0" .Capabilities.KubeVersion.Version) }}
{{- if and $known (not .Values.scheduler.shadow) }}true{{ end }}
{{- end }}

{{- /* "true" where the annotation policy is made. */ -}}
{{- define "ringwise.guarded" -}}
{{- if and (include "ringwise.policies" .) .Values.annotationPolicy.enabled }}true{{ end }}
{{- end }}

{{- /* "true" where the policy for Commands is made. */ -}}
{{- define "ringwise.commandsGuarded" -}}
{{- if and (include "ringwise.policies" .) .Values.queueCommandPolicy.enabled .Values.controller.enabled }}true{{ end }}
{{- end }}

{{- /* "true" where admission writes who created a job, and the policy for it is made. */ -}}
{{- define "ringwise.usersGuarded" -}}
{{- if and (include "ringwise.policies" .) .Values.admission.enabled .Values.userPolicy.enabled }}true{{ end }}
{{- end }}

{{- /* Accounts that create objects for others, as a list of CEL. */ -}}
{{- define "ringwise.creators" -}}
{{- $accounts := concat (list (printf "system:serviceaccount:%s:ringwise-controller" .Release.Namespace)) (.Values.userPolicy.accounts | default list) -}}
{{- printf "['%s']" (join "', '" $accounts) -}}
{{- end }}

{{- /* An admission policy and its binding. root, name, component, rules, action */ -}}
{{- define "ringwise.policy" -}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: {{ .name }}
  labels:
    {{- include "ringwise.labels" (list .root .component) | nindent 4 }}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
      {{- toYaml .rules.resourceRules | nindent 6 }}
  {{- range $key := list "matchConditions" "variables" "validations" }}
  {{- with index $.rules $key }}
  {{ $key }}:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: {{ .name }}
  labels:
    {{- include "ringwise.labels" (list .root .component) | nindent 4 }}
spec:
  policyName: {{ .name }}
  validationActions: [{{ .action }}]
{{ end }}

{{- /* Arguments that name the pods that are ours, where they are not the usual ones. As YAML, under args. */ -}}
{{- define "ringwise.schedulerNames" -}}
{{- $args := list }}
{{- if ne (join "," .Values.scheduler.schedulerNames) "volcano,ringwise" }}
{{- range .Values.scheduler.schedulerNames }}
{{- $args = append $args (printf "--scheduler-name=%s" .) }}
{{- end }}
{{- end }}
{{- toYaml (dict "args" $args) }}
{{- end }}

{{- /* Arguments that name the namespaces of Commands for queues, where they are not the usual ones. As YAML, under args. */ -}}
{{- define "ringwise.commandNamespaces" -}}
{{- $names := .Values.queueCommandPolicy.namespaces }}
{{- if include "ringwise.commandsGuarded" . }}
{{- $names = list "*" }}
{{- end }}
{{- $args := list }}
{{- if ne (join "," $names) "default,kube-system,volcano-system" }}
{{- range $names }}
{{- $args = append $args (printf "--queue-command-namespace=%s" .) }}
{{- end }}
{{- end }}
{{- toYaml (dict "args" $args) }}
{{- end }}

{{- /* Arguments that limit the requests of a component, where they are limited. As YAML, under args. */ -}}
{{- define "ringwise.limits" -}}
{{- $args := list }}
{{- with .kubeApiQps }}
{{- $args = append $args (printf "--kube-api-qps=%v" .) }}
{{- end }}
{{- with .kubeApiBurst }}
{{- $args = append $args (printf "--kube-api-burst=%v" .) }}
{{- end }}
{{- toYaml (dict "args" $args) }}
{{- end }}

{{- /* A role and its binding. root, kind, name, namespace ("" for the cluster), rules, component */ -}}
{{- define "ringwise.access" -}}
{{- $watched := index (.root.Files.Get "files/rbac-watched.yaml" | fromYaml) .rules | default list }}
{{- $written := index (.root.Files.Get "files/rbac.yaml" | fromYaml) .rules | default list }}
{{- $rules := concat $watched $written }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "ringwise.labels" (list .root .component) | nindent 4 }}
rules:
  {{- toYaml $rules | nindent 2 }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: {{ .kind }}Binding
metadata:
  name: {{ .name }}
  {{- with .namespace }}
  namespace: {{ . }}
  {{- end }}
  labels:
    {{- include "ringwise.labels" (list .root .component) | nindent 4 }}
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: {{ .kind }}
  name: {{ .name }}
subjects:
  - kind: ServiceAccount
    name: ringwise-{{ .component }}
    namespace: {{ .root.Release.Namespace }}
{{- end }}

{{- /* A Deployment with its account and disruption budget. root, component, values, replicas, args, ports */ -}}
{{- define "ringwise.boardTexts" -}}
{{- range $name, $text := . }}{{ printf "%s\n%s\n" $name $text }}{{ end }}
{{- end }}

{{- define "ringwise.boardArguments" -}}
args:
{{- range $name, $_ := .Values.boards }}
  - --board-file=/etc/ringwise/boards/{{ $name }}.toml
{{- else }} []
{{- end }}
{{- end }}

{{- define "ringwise.workload" -}}
{{- $name := printf "ringwise-%s" .component }}
---
apiVersion: v1
kind: ServiceAccount
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "ringwise.labels" (list .root .component) | nindent 4 }}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "ringwise.labels" (list .root .component) | nindent 4 }}
spec:
  replicas: {{ .replicas }}
  selector:
    matchLabels:
      {{- include "ringwise.selected" .component | nindent 6 }}
  template:
    metadata:
      labels:
        {{- include "ringwise.podLabels" (list .root .component .values) | nindent 8 }}
        {{- if .shadow }}
        ringwise.io/shadow: "true"
        {{- end }}
      {{- if or .boards .values.podAnnotations }}
      annotations:
        {{- if .boards }}
        ringwise.io/boards-checksum: {{ include "ringwise.boardTexts" .boards | sha256sum }}
        {{- end }}
        {{- with .values.podAnnotations }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
    spec:
      serviceAccountName: {{ $name }}
      {{- with .root.Values.priorityClassName }}
      priorityClassName: {{ . }}
      {{- end }}
      {{- with .root.Values.imagePullSecrets }}
      imagePullSecrets:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      terminationGracePeriodSeconds: 30
      {{- include "ringwise.unprivileged" . | nindent 6 }}
        {{- if .journal }}
        # The files of a claim belong to this group.
        fsGroup: 65532
        fsGroupChangePolicy: OnRootMismatch
        {{- end }}
      topologySpreadConstraints:
        {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
        - maxSkew: 1
          topologyKey: {{ . }}
          whenUnsatisfiable: ScheduleAnyway
          labelSelector:
            matchLabels:
              {{- include "ringwise.selected" $.component | nindent 14 }}
        {{- end }}
      {{- with .values.nodeSelector }}
      nodeSelector:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.tolerations }}
      tolerations:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with .values.affinity }}
      affinity:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      containers:
        - name: {{ .component }}
          image: {{ include "ringwise.image" .root | quote }}
          imagePullPolicy: {{ .root.Values.image.pullPolicy }}
          args:
            {{- toYaml (concat .args (.values.extraArgs | default list)) | nindent 12 }}
          env:
            - name: POD_NAMESPACE
              valueFrom:
                fieldRef:
                  fieldPath: metadata.namespace
            # Components listen on the address of their pod alone.
            - name: POD_IP
              valueFrom:
                fieldRef:
                  fieldPath: status.podIP
            {{- with .values.extraEnv }}
            {{- toYaml . | nindent 12 }}
            {{- end }}
          ports:
            {{- range .ports }}
            - name: {{ .name }}
              containerPort: {{ .port }}
            {{- end }}
          livenessProbe:
            httpGet: {path: /healthz, port: health}
            periodSeconds: 10
            timeoutSeconds: 5
            failureThreshold: 6
          readinessProbe:
            httpGet: {path: /readyz, port: health}
            periodSeconds: 5
            timeoutSeconds: 5
            failureThreshold: 3
          {{- with .values.resources }}
          resources:
            {{- toYaml . | nindent 12 }}
          {{- end }}
          {{- include "ringwise.restricted" .root | nindent 10 }}
          {{- if or .boards .journal .web .tls }}
          volumeMounts:
            {{- if .boards }}
            - name: boards
              mountPath: /etc/ringwise/boards
              readOnly: true
            {{- end }}
            {{- if .journal }}
            - name: journal
              mountPath: /var/lib/ringwise/journal
            {{- end }}
            {{- if .web }}
            - name: web-certificate
              mountPath: /etc/ringwise/web
              readOnly: true
            {{- end }}
            {{- if .tls }}
            - name: tls
              mountPath: /etc/ringwise/tls
              readOnly: true
            {{- end }}
          {{- end }}
      {{- if or .boards .journal .web .tls }}
      volumes:
        {{- if .boards }}
        - name: boards
          configMap:
            name: ringwise-boards
        {{- end }}
        {{- with .journal }}
        - name: journal
          {{- if .existingClaim }}
          persistentVolumeClaim:
            claimName: {{ .existingClaim }}
          {{- else }}
          emptyDir: {}
          {{- end }}
        {{- end }}
        {{- with .web }}
        - name: web-certificate
          secret:
            secretName: {{ .tlsSecret }}
        {{- end }}
        {{- with .tls }}
        - name: tls
          secret:
            secretName: {{ . }}
        {{- end }}
      {{- end }}
{{- if .root.Values.podDisruptionBudget.enabled }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ $name }}
  namespace: {{ .root.Release.Namespace }}
  labels:
    {{- include "ringwise.labels" (list .root .component) | nindent 4 }}
spec:
  maxUnavailable: 1
  selector:
    matchLabels:
      {{- include "ringwise.selected" .component | nindent 6 }}
{{- end }}
{{- end }}
