#!/bin/sh
# Makes the secrets that compose.yaml, the chart and the systemd units read as files. Files that are
# there stay. For containers of this machine as root: the files then are for the image's group.
#   deploy/secrets.sh [FOLDER [HOST OF REDIS]]
set -eu
folder=${1:-$(dirname "$0")/secrets}
host=${2:-redis}
umask 077
mkdir -p "$folder"
cd "$folder"
make() {
    [ ! -e "$1" ] || return 0
    cat > "$1"
    [ "$(id -u)" != 0 ] || chown 0:10001 "$1"
    chmod 440 "$1"
}
random() { od -An -N32 -tx1 /dev/urandom | tr -d ' \n'; }
random | make admin.key
random | make signing.key
random | make grafana.password
# Prometheus gets a key of the service once that runs.
make metrics.key < /dev/null
password=$(random)
echo "requirepass $password" | make redis.auth
echo "redis://:$(cut -d' ' -f2 redis.auth)@$host:6379/0" | make redis.url
