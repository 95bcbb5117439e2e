//! Recognizes the forms of administrative commands that only read. Such a form is recognized by its options, all of
//! which must be known: an unknown option could change the system even if it follows an option that reads, as in
//! `sgdisk -p -Z`.

use super::argv::Args;
use crate::words::has;

/// A command that changes the system, and the options with which it only reads. An option with `=` takes a value.
struct Reader {
    names: &'static str,
    /// Options that select a form that only reads. `()` means that the command only reads if it has no operands, and
    /// `*` that such a form may have operands.
    selects: &'static str,
    /// Options that may accompany those in `selects`.
    others: &'static str,
}

/// The properties of an option, or of a group of short options.
struct Found {
    selects: bool,
    /// `true` if the next argument is the option's value.
    takes_next: bool,
    /// `true` if an option with a value selects the form, so that the value decides what the command reads.
    is_selector: bool,
}

const fn reader(names: &'static str, selects: &'static str, others: &'static str) -> Reader {
    Reader { names, selects, others }
}

const READERS: &[Reader] = &[
    reader("crontab", "-l", "-u="),
    reader(
        "fdisk",
        "-l --list -s -V --version *",
        "-b= -o= --output= -c -L -u -x --bytes --color --units",
    ),
    reader(
        "sfdisk",
        "\
        -l --list -d --dump -J --json -F --list-free -V --verify -s --show-size -g --show-geometry -T \
        --list-types -v --version *",
        "-o= --output= -q --quiet --bytes",
    ),
    reader(
        "sgdisk",
        "-p --print -i= --info= -L --list-types -O --print-mbr -v --verify -V --version *",
        "",
    ),
    reader("gdisk", "-l *", ""),
    reader("parted", "-l --list -v --version", "-s --script -m --machine"),
    reader(
        "losetup",
        "() -l --list -a --all -f --find -j= --associated=",
        "-O= --output= -n --noheadings -J --json --raw --output-all",
    ),
    reader("mount", "() -l --show-labels -V --version", "-t= --types= -v --verbose"),
    reader(
        "dmesg",
        "\
        () -T -H -x -k -u -w -W -L -t -P -S -d -e -r -J -p -h -V --ctime --human --decode --kernel \
        --userspace --follow --follow-new --color --nopager --notime --raw --reltime --show-delta \
        --json --syslog",
        "-l= -f= -s= --level= --facility= --since= --until= --time-format= --buffer-size=",
    ),
    reader(
        "firewall-cmd",
        "\
        --state --list-all --list-all-zones --list-ports --list-services --list-rich-rules \
        --get-default-zone --get-active-zones --get-zones --get-services",
        "--zone= --permanent",
    ),
    reader(
        "\
        iptables ip6tables ebtables arptables iptables-legacy ip6tables-legacy iptables-nft \
        ip6tables-nft",
        "-L -S --list --list-rules -V --version *",
        "-t= --table= -n -v -x -w --numeric --verbose --exact --line-numbers --wait",
    ),
    reader(
        "hostname",
        "\
        () -f -s -i -I -d -a -A -y --fqdn --long --short --ip-address --all-ip-addresses --domain \
        --alias --all-fqdns",
        "",
    ),
    reader(
        "smartctl",
        "\
        -a -i -H -A -c -x -l= -g= --all --info --health --attributes --capabilities --xall --scan \
        --scan-open --log= --get= *",
        "\
        -d= --device= -q= --quietmode= -T= --tolerance= -n= --nocheck= -v= -P= -f= -b= -r= -j --json",
    ),
    reader(
        "update-alternatives",
        "--list= --display= --query= --get-selections",
        "--quiet --verbose",
    ),
    reader("scutil", "--get= --dns --proxy --nwi -r=", ""),
    reader("softwareupdate", "-l --list --history", "--no-scan"),
    reader(
        "swapon",
        "() -s --summary --show",
        "--noheadings --bytes --raw --output-all -v --verbose",
    ),
    reader(
        "mdadm",
        "-D --detail -E --examine -Q --query --detail-platform *",
        "-s --scan -b --brief -v --verbose -Y --export -t --test",
    ),
    reader("tune2fs", "-l *", ""),
    reader("efibootmgr", "() -v --verbose", ""),
    reader("chage", "-l --list *", "-i --iso8601"),
    reader("passwd", "-S --status *", "-a --all"),
    reader("ldconfig", "-p --print-cache", ""),
    // Other options are not allowed here: with `-r`, `modprobe` removes a module even if `-R` selects a form that
    // reads.
    reader(
        "modprobe",
        "-n --dry-run --show -D --show-depends -c --showconfig -R --resolve-alias *",
        "-v --verbose -q --quiet -a --all",
    ),
    reader("auditctl", "-l -s", ""),
    reader("semodule", "-l --list-modules", ""),
    reader("mokutil", "--sb-state --list-enrolled", ""),
    reader("chkconfig", "--list *", ""),
];

/// Returns whether a command of the table only reads; `None` if the table does not have it.
pub(super) fn only_reads(name: &str, args: Args<'_>) -> Option<bool> {
    let reader = READERS.iter().find(|reader| has(reader.names, name))?;
    Some(reader.fits(args))
}

impl Reader {
    fn fits(&self, args: Args<'_>) -> bool {
        let (mut is_selected, mut has_operands) = (false, false);
        let mut words = args.texts();
        while let Some(word) = words.next() {
            if !word.starts_with('-') {
                has_operands = true;
                continue;
            }
            let Some(found) = self.options(word) else { return false };
            is_selected |= found.selects;
            let value = if found.takes_next { words.next() } else { Some(word) };
            // The text after a comma in such a value can be a setting to change, as in `smartctl -l scterc,70,70`. So
            // the command does not count as reading.
            if value.is_none_or(|value| found.is_selector && value.contains(',')) {
                return false;
            }
        }
        let is_bare = has(self.selects, "()") && !has_operands;
        (is_selected || is_bare) && (!has_operands || has(self.selects, "*"))
    }

    /// Returns the properties of an option or of a group of short options; `None` if one of the options is not listed.
    fn options(&self, word: &str) -> Option<Found> {
        let (name, is_glued) = match word.split_once('=') {
            Some((name, _)) => (name, true),
            None => (word, false),
        };
        if let Some((selects, is_valued)) = self.option(name) {
            let (takes_next, is_selector) = (is_valued && !is_glued, is_valued && selects);
            return Some(Found { selects, takes_next, is_selector });
        }
        let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'))?;
        let mut selects = false;
        for (at, letter) in letters.char_indices() {
            let (selected, is_valued) = self.option(&format!("-{letter}"))?;
            selects |= selected;
            if is_valued {
                let takes_next = letters.len() == at + letter.len_utf8();
                return Some(Found { selects, takes_next, is_selector: selected });
            }
        }
        Some(Found { selects, takes_next: false, is_selector: false })
    }

    /// Returns whether a listed option selects a form that reads, and whether it takes a value.
    fn option(&self, name: &str) -> Option<(bool, bool)> {
        let valued = format!("{name}=");
        [(self.selects, true), (self.others, false)].into_iter().find_map(|(list, selects)| {
            if has(list, name) {
                return Some((selects, false));
            }
            has(list, &valued).then_some((selects, true))
        })
    }
}
