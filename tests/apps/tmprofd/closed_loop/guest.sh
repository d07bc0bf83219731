# SPDX-License-Identifier: Apache-2.0
# The common part of the scripts of the virtual machine: programs on some nodes of memory, and tmprofd beside them.
# shellcheck shell=sh disable=SC2034
set -u
mkdir -p /root/out
cd /root/out || exit
echo 0 >/proc/sys/kernel/numa_balancing
# The same arguments give the same addresses.
echo 0 >/proc/sys/kernel/randomize_va_space

SOCKET=/tmp/tmprofd.sock
GROUP=/sys/fs/cgroup/placed
echo "+cpuset +memory" >/sys/fs/cgroup/cgroup.subtree_control
mkdir $GROUP

# COMMAND...: until it succeeds. All is over when it has not within a minute.
await() {
  tries=0
  until "$@"; do
    tries=$((tries + 1))
    [ $tries -lt 200 ] || {
      echo "not within a minute: $*" >&2
      exit 1
    }
    sleep 0.3
  done
}

# NODE NODES NAME COMMAND...: starts a program whose memory is all on NODE and may go to NODES; its number is in
# $program. Its first line says that its memory is there.
start_on_node() {
  node=$1
  nodes=$2
  name=$3
  shift 3
  : >"$name.out"
  echo "$node" >"$GROUP/cpuset.mems"
  sh -c "echo \$\$ >$GROUP/cgroup.procs; exec $*" >"$name.out" 2>"$name.err" &
  program=$!
  await test -s "$name.out"
  echo "$nodes" >"$GROUP/cpuset.mems"
}

# NAME COMMAND...: of two nodes, the slow one.
start_on_slow_node() {
  start_on_node 1 0-1 "$@"
}

# NAME: ends $program and keeps its status.
end_program() {
  kill -TERM "$program"
  wait "$program"
  echo $? >"$1.program_status"
}

# NAME: writes to NAME.nodes which node each page of $program is on.
save_nodes() {
  /root/page_nodes "$program" >"$1.nodes"
}

# NAME: configuration from standard input, beside what all have; the daemon's number is in $daemon.
start_daemon() {
  {
    cat
    echo "ledger { file: \"/root/out/$1.ledger\" }"
    echo "control { socket: \"$SOCKET\" }"
    echo 'log { level: "debug" }'
  } >"$1.textproto"
  run_daemon "$1" "$1.log"
}

# The program that executes the daemon, if not the shell.
BY=

# NAME LOG: by the configuration that is there.
run_daemon() {
  $BY tmprofd --config "$1.textproto" 2>"$2" &
  daemon=$!
  await grep -qs ready "$2"
}

# NAME: ends the daemon and keeps its status.
end_daemon() {
  kill -TERM "$daemon"
  wait "$daemon"
  echo $? >"$1.status"
}

ask() {
  tmprof ctl "$@" --socket $SOCKET
}

# LEDGER EPOCHS: until so many epochs more are in it.
await_epochs() {
  epochs=0
  while [ $epochs -lt "$2" ]; do
    size=$(stat -c %s "$1")
    await sh -c "[ \$(stat -c %s $1) -gt $size ]"
    epochs=$((epochs + 1))
  done
}
