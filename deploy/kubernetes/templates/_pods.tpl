{{- define "sirocco.labels" -}}
app.kubernetes.io/name: sirocco
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "sirocco.selector" -}}
app.kubernetes.io/name: sirocco
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "sirocco.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- /* The restricted profile of pods, and of their containers; `user` is also the group of files. */}}
{{- define "sirocco.pod" -}}
serviceAccountName: {{ .root.Release.Name }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: {{ .user }}
  runAsGroup: {{ .user }}
  fsGroup: {{ .user }}
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "sirocco.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: { drop: [ALL] }
{{- end }}

{{- define "sirocco.secrets" -}}
- name: secrets
  secret:
    secretName: {{ .root.Values.secret }}
    defaultMode: 0440
    items:
      {{- range .files }}
      - { key: {{ . }}, path: {{ . }} }
      {{- end }}
{{- end }}

{{- define "sirocco.settings" -}}
- { name: SIROCCO_REDIS_URL_FILE, value: /run/secrets/redis.url }
{{ include "sirocco.variables" .Values.settings }}
{{- end }}

{{- /* Numbers of values are floats to Helm, which writes a million as 1e+06: no setting takes that. */}}
{{- define "sirocco.variables" -}}
{{- range $name, $value := . }}
- name: {{ $name }}
  value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}
{{- end }}

{{- define "sirocco.claim" -}}
accessModes: [ReadWriteOnce]
{{- with .className }}
storageClassName: {{ . }}
{{- end }}
resources:
  requests: { storage: {{ .size }} }
{{- end }}
