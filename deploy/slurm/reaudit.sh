#!/bin/bash
# Audits every new release periodically: each job first submits its successor, so that the series
# continues whatever happens to the job. For sites with scrontab, see the file next to this one.
#
#   sbatch [options] reaudit.sh CATALOGUE [further options of clusterscale reaudit]
#
# A job exits as the command does: 0 all pass or nothing new, 1 tasks failed, 2 it cannot run, 3
# warn, 4 fail; none of these ends the series. If a cluster or a store failed (75), or at the
# walltime, the same job is requeued and resumes.
#
#   scancel --user="$USER" --name=clusterscale-reaudit    ends the series
#   squeue --user="$USER" --name=clusterscale-reaudit     shows running and waiting jobs
#
# Adapt these to the site, in a copy; successors use the options in this file and SBATCH_…
# variables. Of the options given to sbatch they keep only the name, the partition and the account.
# There is one series per name, however often it is submitted: use another name for each catalogue.
#SBATCH --job-name=clusterscale-reaudit
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=2
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
export EVERY=${EVERY:-now+7days} # begin of the next job, as --begin of sbatch; 02:17 means daily
export RETRIES=${RETRIES:-3}     # how often a job is requeued
ROUNDS=${ROUNDS:-}               # number of jobs; empty: no limit
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1

[ -n "${SLURM_JOB_ID:-}" ] || { echo "give this file to sbatch" >&2; exit 2; }
case $ROUNDS in
  *[!0-9]* | 0*) echo "ROUNDS is $ROUNDS and not a number from 1 on" >&2; exit 2 ;;
esac

submit() (
  partition=${SLURM_JOB_PARTITION:-} account=${SLURM_JOB_ACCOUNT:-} conf=${SLURM_CONF:-}
  set -- --begin="$EVERY" --job-name="$SLURM_JOB_NAME" ${partition:+"--partition=$partition"} \
    ${account:+"--account=$account"} "$0" "$@"
  unset "${!SLURM_@}" # Slurm's variables of this job, such as its restarts, do not apply to the next
  [ -z "$conf" ] || export SLURM_CONF=$conf
  exec env ROUNDS="${ROUNDS:+$((ROUNDS - 1))}" sbatch "$@"
)

queue_next() { # unless one is waiting already: this job may have been restarted, or submitted twice
  local waiting
  [ "$ROUNDS" != 1 ] || return 0
  waiting=$(squeue --noheader --user="$(id -u)" --name="$SLURM_JOB_NAME" --states=PENDING \
    --format=%A) || return 1
  if grep -qvx -e "$SLURM_JOB_ID" -e "" <<< "$waiting"; then return 0; fi
  submit "$@"
}

queued=no
for _ in 1 2 3 4 5; do # the controller may be temporarily unavailable
  queue_next "$@" && queued=yes && break
  sleep 15
done

late=no
# Worker jobs that the command may submit do not belong to this series.
(unset "${!SBATCH_@}"; exec "$CLUSTERSCALE" reaudit "$@") &
command=$!
trap 'late=yes; kill -TERM "$command" 2>/dev/null' USR1
trap 'kill -TERM "$command" 2>/dev/null' TERM
while kill -0 "$command" 2>/dev/null; do wait "$command"; done # a signal interrupts wait
wait "$command"
code=$?

if [ $queued = no ] && ! queue_next "$@"; then
  echo "no successor could be queued: the series ends here" >&2
  [ "$code" != 0 ] || code=75
fi
run=$((${SLURM_RESTART_COUNT:-0} + 1))
if [ "$code" = 75 ] || [ "$code$late" = 143yes ]; then
  if [ "$run" -le "$RETRIES" ]; then
    echo "run $run ended with $code before all was audited: the job queues again"
    scontrol requeue "$SLURM_JOB_ID" && sleep 60
  fi
fi
exit "$code"
