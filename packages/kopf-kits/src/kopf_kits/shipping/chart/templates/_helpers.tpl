{{- define "operator.labels" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
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
