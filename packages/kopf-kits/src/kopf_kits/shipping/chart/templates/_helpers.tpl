{{/* By what the pods are selected: it never changes. */}}
{{- define "operator.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "operator.labels" -}}
{{ include "operator.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "operator.image" -}}
{{ .Values.image.repository }}
{{- if .Values.image.digest }}{{ printf "@%s" .Values.image.digest }}
{{- else }}{{ printf ":%s" (default .Chart.AppVersion .Values.image.tag) }}{{ end }}
{{- end }}

{{/* What is needed in every namespace that is served. */}}
{{- define "operator.rules" -}}
{{- range .Values.kinds }}
- apiGroups: [{{ .group | quote }}]
  resources: {{ .resources | toJson }}
  verbs: [get, list, watch, patch]
- apiGroups: [{{ .group | quote }}]
  resources: [{{ range $i, $name := .resources }}{{ if $i }}, {{ end }}{{ printf "%s/status" $name | quote }}{{ end }}]
  verbs: [patch]
{{- end }}
- apiGroups: [""]
  resources: [events]
  verbs: [create, patch]
{{- with .Values.rules }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* One process takes 50-75 MB without objects. */}}
{{- define "operator.resources" -}}
{{- if .Values.resources }}
{{- toYaml .Values.resources }}
{{- else }}
{{- if gt (int .Values.processes) 1 }}
requests: {cpu: {{ int .Values.processes }}, memory: {{ mul 128 (int .Values.processes) }}Mi}
{{- else }}
requests: {cpu: 50m, memory: 64Mi}
{{- end }}
limits: {memory: {{ mul 256 (int .Values.processes) }}Mi}
{{- end }}
{{- end }}
