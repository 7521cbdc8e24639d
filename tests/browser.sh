#!/bin/sh
# The pages are tested in a real browser. Debian's chromium is used where it is present; a root user
# on Debian gets it installed; anyone else is told, and the browser tests say why they did not run.
set -eu
for name in chromium chromium-browser google-chrome; do
    if command -v "$name" >/dev/null 2>&1; then exit 0; fi
done
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing chromium for the browser tests" >&2
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null
else
    echo "no chromium found: install it to run the browser tests (Debian: apt-get install chromium)" >&2
fi
