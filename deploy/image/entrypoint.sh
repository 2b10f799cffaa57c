#!/bin/sh
# The entrypoint of the images: prepares what is in /app, and becomes the operator.
#
#   no arguments            run /app/main.py, verbosely
#   any arguments           they are for the command line of kopf: run, freeze, --version, ...
#   /app/requirements.txt   is installed before that
#   /app/pyproject.toml     the project is installed before that, as an editable one
#
# KOPF_APP is the folder to use instead of /app.
set -eu

app="${KOPF_APP:-/app}"

if [ -f "$app/requirements.txt" ]; then
  pip install --requirement "$app/requirements.txt"
fi
if [ -f "$app/pyproject.toml" ]; then
  pip install --editable "$app/"
fi

if [ "$#" -eq 0 ]; then
  if [ ! -f "$app/main.py" ]; then
    echo "There is nothing to run: mount the operator as $app/main.py, or give the arguments of kopf." >&2
    exit 2
  fi
  set -- run --verbose "$app/main.py"
fi

# There is no shell left in between: the signals come to the operator, its exit code is the container's.
exec kopf "$@"
