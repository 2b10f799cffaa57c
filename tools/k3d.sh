#!/usr/bin/env bash
# Run the end-to-end tests on a k3d cluster of its own: created here, deleted here, also on failure.
set -euo pipefail
cd "$(dirname "$0")/.."

K3S="${K3S:-v1.34.1-k3s1}"
RUN="${RUN:-uv run}"
name="kopf-e2e-$$"

command -v k3d >/dev/null || { echo "k3d is not found; see its documentation on how to install it." >&2; exit 1; }

kubeconfig="$(mktemp)"
cleanup() {
  k3d cluster delete "$name" || true
  rm -f "$kubeconfig"
}
trap cleanup EXIT

k3d cluster create "$name" --image "rancher/k3s:$K3S" --no-lb --wait --timeout 180s \
  --kubeconfig-update-default=false --kubeconfig-switch-context=false \
  --k3s-arg '--disable=traefik,servicelb,metrics-server@server:*'
k3d kubeconfig get "$name" >"$kubeconfig"
KUBECONFIG="$kubeconfig" $RUN pytest e2e --cluster k3d "$@"
