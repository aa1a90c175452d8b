#!/bin/bash
# One audit (or screen) as one job: task 0 is the scheduler, task 1 the driver, all others work.
#
#   sbatch [options] allocation.sh audit CONFIG [further options of clusterscale]
#
# An audit longer than the walltime is stopped before it and keeps finished work, and the job is
# requeued, unless this run has finished nothing: the next one would not either. It is also requeued if
# it was lost. It exits when the audit does: with 0 if all is done, 1 if tasks failed, 2 if it cannot
# run, 3 or 4 with a verdict; with others (75: the cluster or a store failed; 137: killed; 143: at its
# walltime) if it gives up.
#
# Adapt these to the site, or give them to sbatch; they are kept from one run to the next.
#SBATCH --job-name=clusterscale
#SBATCH --ntasks=10
#SBATCH --cpus-per-task=1
#SBATCH --mem-per-cpu=4G
#SBATCH --time=04:00:00
#SBATCH --output=%x-%j.log
# Keep these: a signal before the walltime, requeueing under the same number, one log for all runs,
# and never two jobs of one name at the same time.
#SBATCH --signal=B:USR1@300
#SBATCH --requeue
#SBATCH --open-mode=append
#SBATCH --dependency=singleton
set -u
export CLUSTERSCALE=${CLUSTERSCALE:-clusterscale} # path of the command, if not on PATH
RUNS=${RUNS:-100}                                 # maximum number of runs
LOSSES=${LOSSES:-3}                               # maximum number of losses other than by walltime
GRACE=${GRACE:-60}                                # seconds that tasks may take to end
EARLY=${EARLY:-300}                               # seconds of --signal
export DASK_LOGGING__DISTRIBUTED=${DASK_LOGGING__DISTRIBUTED:-warning}
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

# What a run leaves for the next one, and the driver for this script, is in the comment of the job:
# no folder has to be writable for it. "lost 1 exit 0" is one lost run, and a driver that ended.
ask() { squeue --noheader --job "$SLURM_JOB_ID" --states all --format "$1"; }
lost=$(ask %k | sed -n 's/.*lost \([0-9]*\).*/\1/p')
lost=${lost:-0}
note() { # fails if the comment cannot be changed: lost runs would not be counted
  for pause in 1 5 15 0; do
    scontrol update "JobId=$SLURM_JOB_ID" "Comment=lost $lost" && return 0
    sleep $pause
  done
  return 1
}
give_up() {
  [ $# = 1 ] || echo "run $run ended with $1 before the audit was done, and $2"
  exit "$1"
}

# As [days-][hours:]minutes:seconds
left=$(ask %L | awk -F'[-:]' '/^[0-9:-]+$/ {
  days = /-/ ? $1 : 0; n = NF
  print ((days * 24 + (n - (days > 0) > 2 ? $(n - 2) : 0)) * 60 + $(n - 1)) * 60 + $n }')
least=$((2 * EARLY + GRACE))
if [ "${left:-$least}" -lt "$least" ]; then
  echo "$left seconds are left, and the job is stopped $EARLY seconds before its walltime:" >&2
  echo "give it at least --time=$(((least + 59) / 60))" >&2
  exit 2
fi

began=$(date +%s)
has_kept() { # whether this run has finished anything, as far as files on a disk show
  [[ " $* " != *" --output"* ]] || return 0
  output=$("$CLUSTERSCALE" config show "${@:2:1}" | sed -n 's/^output: //p')
  [[ -n $output && $output != *://* ]] || return 0
  [ -d "$output" ] || return 1
  [ -n "$(find "$output" -path "$output/status" -prune -o -type f -newermt "@$began" \
    ! -name '*.json' -print -quit)" ]
}

late=no
trap 'late=yes; scancel --signal=TERM "$SLURM_JOB_ID.0"' USR1
note || { # of this run, no driver has ended yet
  echo "the job cannot keep its state in its comment (scontrol update)" >&2
  exit 2
}

export LOST=$lost
# shellcheck disable=SC2016  # the tasks expand it
srun --kill-on-bad-exit=0 bash -c '
  trap : TERM # to outlive the driver and tell its exit code
  "$CLUSTERSCALE" "$@" --cluster slurm-allocation
  code=$?
  if [ "$SLURM_PROCID" = 1 ]; then
    for pause in 1 5 15 30; do
      scontrol update "JobId=$SLURM_JOB_ID" "Comment=lost $LOST exit $code" && break
      sleep $pause
    done
  fi
  exit "$code"' task "$@" &
step=$!

running() { kill -0 "$step" 2>/dev/null; }
pause() { sleep "$1" & wait $!; } # a signal interrupts it
code() { ask %k | sed -n 's/.*exit \([0-9]*\).*/\1/p'; }
wait_for_driver() { # for $2 seconds at most, while $late is $1
  for ((seconds = 1; seconds <= $2; seconds++)); do
    [ $late = "$1" ] && running || return 0
    [ $((seconds % 10)) != 0 ] || [ -z "$(code)" ] || return 0
    pause 1
  done
}
wait_for_driver no 100000000
wait_for_driver yes "$GRACE"
for signal in INT KILL; do # for tasks that do not end with the driver
  for _ in $(seq 5); do running && pause 1; done
  running && scancel --signal=$signal "$SLURM_JOB_ID.0" 2>/dev/null
done
wait "$step"

code=$(code)
code=${code:-137}
run=$((${SLURM_RESTART_COUNT:-0} + 1))
case $code in
  0 | 1 | 2 | 3 | 4 | 70) give_up "$code" ;; # 70: a bug, which the next run would meet again
  143)
    [ $late = yes ] || give_up 143 # it was stopped by a user
    has_kept "$@" || give_up 143 "it finished nothing: a task needs more time than --time gives it"
    ;;
  *) lost=$((lost + 1)) ;;
esac
[ "$lost" -lt "$LOSSES" ] || give_up "$code" "it was lost $LOSSES times"
[ "$run" -lt "$RUNS" ] || give_up "$code" "it was the last run"
note || give_up "$code" "the job cannot note that"
echo "run $run ended with $code before the audit was done: the job queues again"
scontrol requeue "$SLURM_JOB_ID" && sleep "$GRACE"
exit "$code"
