#!/usr/bin/env bash
# scripts/emulate-avx512.sh PROGRAM [ARGUMENT...]
# Runs a program on a CPU with AVX-512 and VNNI that Bochs emulates, instruction by instruction, and returns the
# program's exit status. Debian's kernel boots there from an image that holds the program, the shared libraries it
# needs, and a shell. Needs what `scripts/install-deps.sh --avx512` installs; EMULATOR_SECONDS=7200 is how long it may
# take, EMULATED_CPU=corei7_icelake_u one of the models that `bochs --help cpu` lists.
set -euo pipefail
[ $# -gt 0 ] || { sed -n '2s/^# /usage: /p' "$0" >&2; exit 2; }
program=$(readlink -f "$1")
shift
marker="exit status of the emulated program:"

work=$(mktemp -d)
emulator=
trap '[ -z "$emulator" ] || kill "$emulator" 2>/dev/null; rm -rf "$work"' EXIT
cd "$work"
mkdir -p root/{bin,dev,proc} image

# The kernel need not be installed to be booted.
kernel=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/^ *Depends: //p')
apt-get download "$kernel" >/dev/null 2>&1
dpkg-deb --fsys-tarfile ./*.deb | tar -x --wildcards -O './boot/vmlinuz-*' >image/linux

for file in /bin/sh /bin/mount "$program"; do
  install -D "$(readlink -f "$file")" "root/bin/$(basename "$file")"
  ldd "$(readlink -f "$file")" | grep -o '/[^ ]*' | while read -r library; do
    install -D "$(readlink -f "$library")" "root$library"
  done
done
printf -v command ' %q' "/bin/$(basename "$program")" "$@"
# Letting go of the console waits until it has sent all. `b` boots anew, by the triple fault that ends the emulation.
cat >root/init <<INIT
#!/bin/sh
mount -t proc proc /proc
mount -t devtmpfs dev /dev
$command
echo "$marker \$?"
exec </dev/null >/dev/null 2>&1
echo b >/proc/sysrq-trigger
INIT
chmod +x root/init
(cd root && find . | cpio --quiet -o -H newc) >image/initrd

cp /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 image
# Without interrupt controllers, buses and tests of its own that nothing here needs. The kernel would do without AVX
# where the sizes that CPUID states for the state of the registers disagree: Bochs leaves out protection keys (515) and
# counts compact forms (XSAVEC and XSAVES, 321 and 323) otherwise. It states fast copies of short strings (580) and
# turns off those of long ones, as no CPU does: the kernel's memmove then runs past its end.
cat >image/isolinux.cfg <<'BOOT'
default linux
label linux
  kernel linux
  append initrd=initrd console=ttyS0,115200 quiet reboot=t panic=-1 nosmp nolapic acpi=off pci=off lsm= cryptomgr.notests tsc=reliable mitigations=off clearcpuid=515,321,323,580
BOOT
xorriso -as mkisofs -quiet -o image.iso -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 -boot-info-table \
  image 2>xorriso.log || { cat xorriso.log >&2; exit 1; }

cat >bochsrc <<BOCHS
display_library: rfb, options="timeout=0"
romimage: file=/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=/usr/share/bochs/VGABIOS-lgpl-latest
cpu: model=${EMULATED_CPU:-corei7_icelake_u}, ips=20000000, reset_on_triple_fault=0
memory: guest=1024, host=1024
ata0-master: type=cdrom, path=image.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=console
sound: driver=dummy
speaker: enabled=0
log: bochs.log
panic: action=fatal
info: action=ignore
BOCHS
echo c >commands
timeout "${EMULATOR_SECONDS:-7200}" bochs -q -f bochsrc -rc commands </dev/null >bochs.out 2>&1 &
emulator=$!
wait "$emulator" || true
emulator=

touch console
tr -d '\r' <console
status=$(sed -n "s/^$marker \([0-9]*\).*/\1/p" console)
if [ -z "$status" ]; then
  echo "error: the emulated machine stopped before the program ended:" >&2
  tail -n 5 bochs.out >&2
  exit 1
fi
exit "$status"
