#!/bin/sh
# Stands for apparmor_parser in tests: what it loads is added to the list of the machine it lies in.
root=${0%/sbin/apparmor_parser}
echo "$@" >> "$root/calls"
if [ -e "$root/broken" ]; then
    echo syntax >&2
    exit 1
fi
for file; do :; done
cp "$file" "$root/loaded"
sed -n 's/^profile \([^ ]*\) .*/\1 (enforce)/p' "$file" >> "$root/sys/kernel/security/apparmor/profiles"
