//! Commands that are refused whatever their arguments, and commands of which only some forms are allowed.

/// Names of commands by the reason for which they are never run.
pub(super) const NEVER: &[(&str, &str)] = &[
    (
        "changes privileges",
        "\
        sudo su doas pkexec runuser sudoedit visudo setpriv capsh newgrp sg gksu gksudo kdesu kdesudo \
        machinectl chroot unshare nsenter systemd-run run0 setcap dzdo pfexec su-exec gosu sesu super \
        calife newuidmap newgidmap pam_exec polkit-agent-helper-1 fakechroot please runas gsudo",
    ),
    (
        "changes the power state",
        "\
        reboot shutdown halt poweroff telinit init kexec pm-suspend pm-hibernate systemctl-poweroff \
        rtcwake",
    ),
    (
        "changes disks or file systems",
        "\
        mkswap mke2fs mkdosfs mkntfs mkudffs newfs format cfdisk blkdiscard shred srm wipe scrub \
        swapon swapoff cryptsetup lvremove vgremove pvremove lvcreate vgcreate pvcreate lvresize \
        lvreduce vgreduce badblocks tune2fs resize2fs debugfs dmsetup mdadm flashrom fwupdmgr \
        efibootmgr grub-install grub2-install fsck e2fsck xfs_repair umount fusermount partprobe partx \
        diskutil dd_rescue ddrescue diskpart fstrim trash-empty pivot_root switch_root",
    ),
    (
        "changes users",
        "\
        useradd userdel usermod adduser deluser addgroup delgroup groupadd groupdel groupmod passwd \
        chpasswd chgpasswd chsh chfn gpasswd vipw vigr newusers pwconv faillock chage",
    ),
    (
        "changes the running kernel or its services",
        "\
        modprobe insmod rmmod killall5 setenforce aa-disable aa-complain auditctl bpftool \
        start-stop-daemon update-rc.d chkconfig sulogin agetty ldconfig kmod",
    ),
    (
        "executes text or other commands",
        "\
        eval source . alias trap enable bind let fc coproc at batch run-parts script daemonize anacron \
        ex ed red rvim osascript wish expect jrunscript iex ghci irb pry jshell gdb lldb dc runscript \
        cpulimit dbus-run-session mshta wscript cscript rundll32 regsvr32 certutil bitsadmin wmic \
        msiexec schtasks del rd erase sc reg",
    ),
];

/// Reserved words of shells, which begin more than a simple command.
pub(super) const RESERVED: &[&str] = &[
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for",
    "in", "function", "select", "coproc", "[[", "]]", "{", "}", "!", "((", "foreach", "end",
    "repeat",
];

/// Commands that are allowed with the words of the second column only; `()` means no arguments.
pub(super) const ONLY: &[(&str, &str)] = &[
    ("crontab", "-l"),
    ("fdisk", "-l --list"),
    ("sfdisk", "-l --list -d --dump -V -F"),
    ("sgdisk", "-p --print -i -L"),
    ("gdisk", "-l"),
    ("parted", "-l --list"),
    ("losetup", "() -l --list -a --all -f"),
    ("mount", "() -l -V"),
    (
        "dmesg",
        "\
        () -T -H -x -k -u -w -l --level=* --ctime --human --facility=* -L --color=* -t -P --since \
        --follow",
    ),
    ("zpool", "list status iostat get history"),
    ("zfs", "list get"),
    ("nvme", "list smart-log id-ctrl"),
    (
        "systemctl",
        "\
        () status is-active is-enabled is-failed list-units list-unit-files list-timers list-sockets \
        list-dependencies list-jobs show cat get-default show-environment is-system-running help",
    ),
    ("launchctl", "list print blame"),
    (
        "loginctl",
        "\
        () list-sessions list-users list-seats show-session show-user session-status user-status",
    ),
    ("hostnamectl", "() status"),
    ("timedatectl", "() status show list-timezones"),
    ("localectl", "() status list-locales list-keymaps"),
    ("ufw", "status version"),
    (
        "firewall-cmd",
        "--state --list-all --get-default-zone --list-ports --list-services --get-zones",
    ),
    ("iptables", "-L -S --list --list-rules"),
    ("ip6tables", "-L -S --list --list-rules"),
    ("nft", "list"),
    ("tmux", "ls list-sessions list-windows list-panes -V info has-session"),
    ("screen", "-ls -list --list"),
    (
        "terraform",
        "\
        () init plan validate fmt show output version providers graph state workspace get",
    ),
    ("tofu", "init plan validate fmt show output version providers graph get"),
    ("update-alternatives", "--list --display --query --get-selections"),
];

/// Options of commands by which they execute, delete or load something.
pub(super) struct Risky {
    pub(super) names: &'static str,
    /// Short options.
    pub(super) short: &'static str,
    /// Short options that take a value, after which a cluster ends.
    pub(super) valued: &'static str,
    /// Long options, also abbreviated; with a single dash they are matched as they are written here.
    pub(super) long: &'static str,
    /// Full names of harmless options that begin like one of `long`.
    pub(super) safe: &'static str,
}

const fn risky(
    names: &'static str,
    short: &'static str,
    valued: &'static str,
    long: &'static str,
    safe: &'static str,
) -> Risky {
    Risky { names, short, valued, long, safe }
}

pub(super) const RISKY: &[Risky] = &[
    risky("rm", "rR", "", "recursive no-preserve-root", ""),
    risky(
        "chmod chown chgrp setfacl chattr chcon restorecon",
        "R",
        "mMxXv",
        "recursive restore",
        "",
    ),
    risky(
        "tar bsdtar gtar",
        "IF",
        "fCbTXgKVHN",
        "\
        remove-files checkpoint-action to-command use-compress-program rsh-command rmt-command \
        info-script new-volume-script recursive-unlink unlink-first index-file volno-file",
        "checkpoint to-stdout",
    ),
    risky("zip", "m", "bnPstx", "move unzip-command TT", ""),
    risky(
        "rsync",
        "e",
        "fTBM",
        "\
        rsh rsync-path delete delete-before delete-during delete-delay delete-after delete-excluded \
        del remove-source-files delete-missing-args daemon config early-input log-file",
        "",
    ),
    risky("sort gsort", "", "", "compress-program", ""),
    risky("split csplit", "", "", "filter", ""),
    risky("fd fdfind", "xX", "eEtdcgSoj", "exec exec-batch", "exclude extension"),
    risky("rg", "", "", "pre hostname-bin", "pretty pre-glob"),
    risky("ag ack", "", "", "pager output", ""),
    risky("less more most", "oO", "pPtTDbhjxyz", "log-file LOG-FILE lesskey-file lesskey-src", ""),
    risky("man", "PHC", "SMmLErp", "pager html config-file", ""),
    risky(
        "curl",
        "K",
        "oXHdFuAebcCmrTwxyYzQEtUD",
        "config unix-socket abstract-unix-socket engine",
        "connect-timeout connect-to compressed",
    ),
    risky("wget", "e", "oOaiPUtTQBlADRIXw", "execute use-askpass config post-file body-file", ""),
    risky(
        "aria2c",
        "",
        "",
        "\
        on-download-complete on-download-start on-download-error on-bt-download-complete conf-path \
        enable-rpc",
        "",
    ),
    risky(
        "nc ncat netcat nc.traditional nc.openbsd",
        "ec",
        "pswiXxIOTqgG",
        "exec sh-exec lua-exec",
        "",
    ),
    risky("tcpdump", "z", "iwrsCGFBcjMTUVW", "postrotate-command", ""),
    risky("nmap", "", "", "script interactive datadir servicedb", ""),
    risky("openssl", "", "", "engine provider provider-path loadengine config engine_impl", ""),
    risky(
        "gpg gpg2",
        "",
        "",
        "\
        exec-path photo-viewer agent-program dirmngr-program pinentry-program homedir options",
        "",
    ),
    risky("ssh-keygen", "D", "fbtCNPIOnVzsmMaEFLRrWY", "", ""),
    risky("ssh-add", "s", "", "", ""),
    risky("ssh-agent", "", "", "", ""),
    risky(
        "gcc g++ cc c++ clang clang++ cpp gfortran tcc",
        "",
        "",
        "wrapper fplugin specs load Xclang fpass-plugin B iplugindir run",
        "",
    ),
    risky("ld gold lld ar nm strip", "", "", "plugin dynamic-linker", ""),
    risky("go", "", "", "toolexec exec vettool", ""),
    risky("make gmake bmake remake", "E", "fCIjlOoWd", "eval", ""),
    risky("ninja", "t", "CfjklW", "", ""),
    risky("cmake", "P", "SBDGTACU", "", ""),
    risky("ctest", "S", "RELjICT", "script build-and-test", ""),
    risky("rake", "eEp", "fIrCGRT", "execute execute-print execute-continue", ""),
    risky("just", "", "", "shell shell-arg command edit choose chooser", ""),
    risky("bundle", "", "", "", ""),
    risky("gradle gradlew", "I", "bcgpPDx", "init-script", "include-build"),
    risky("hg", "", "", "config", ""),
    risky("svn", "", "", "config-option diff-cmd diff3-cmd editor-cmd", ""),
    risky("apt apt-get apt-cache", "oc", "t", "option config-file", ""),
    risky(
        "dpkg",
        "iPr",
        "LSlscWxf",
        "install purge remove unpack configure pre-invoke post-invoke",
        "remove-info",
    ),
    risky("rpm rpm2cpio", "iUFeE", "qp", "install upgrade erase eval pipe define", ""),
    risky("yum dnf", "c", "", "config", ""),
    risky(
        "pip pip3",
        "",
        "",
        "config-settings install-option global-option python",
        "python-version progress-bar",
    ),
    risky("7z 7za 7zr", "", "", "sdel", ""),
    risky("psql", "", "", "", ""),
    risky("mysql mariadb", "", "", "pager tee plugin-dir init-command", ""),
    risky("ffmpeg", "", "", "filter_script", ""),
    risky(
        "pdflatex latex xelatex lualatex tex pdftex luatex etex",
        "",
        "",
        "shell-escape enable-write18 write18",
        "",
    ),
    risky("gs ghostscript", "", "", "dNOSAFER dDELAYSAFER", ""),
    risky("emacs emacsclient", "fleLQ", "", "eval execute funcall load script batch insert", ""),
    risky("logrotate", "", "", "state log", ""),
    risky("ip", "b", "", "batch", ""),
    risky("journalctl", "", "", "vacuum-size vacuum-time vacuum-files rotate flush setup-keys", ""),
    risky("dbus-send gdbus busctl", "", "", "system", ""),
    risky("wipefs", "aof", "", "all offset force", ""),
    risky(
        "hdparm",
        "",
        "",
        "\
        security-erase security-erase-enhanced security-set-pass security-disable security-unlock \
        make-bad-sector write-sector trim-sector-ranges dco-restore yes-i-know-what-i-am-doing \
        user-master security-freeze",
        "",
    ),
    risky("sysctl", "wp", "", "write load system", ""),
    risky("pkill killall", "uU", "s", "user euid uid", ""),
    risky("complete compgen", "CF", "", "", ""),
    risky("mapfile readarray", "C", "", "", ""),
    risky("hash", "p", "", "", ""),
    risky("sftp scp", "SFb", "BcDiJloPRsXT", "", ""),
    risky(
        "vi vim view nvim gvim vimdiff",
        "cSsueE",
        "",
        "cmd startuptime server listen remote headless",
        "",
    ),
    risky(
        "node nodejs",
        "epi",
        "C",
        "eval print interactive import loader experimental-loader",
        "print-",
    ),
    risky("perl", "eEd", "IMmCxFDl0i", "", ""),
    risky("ruby jruby truffleruby", "e", "rIEFCxTWKi0", "", ""),
    risky(
        "php",
        "rBREaSd",
        "fczt",
        "run process-code process-begin process-end interactive server",
        "",
    ),
    risky("lua luajit texlua", "eil", "", "", ""),
    risky("r", "ef", "", "interactive", ""),
    risky("rscript littler", "e", "", "", ""),
    risky("julia", "eEL", "pCJt", "eval print load", ""),
    risky(
        "groovy scala kotlin elixir swift racket raku perl6 crystal nim coffee",
        "e",
        "",
        "eval rpc-eval execute",
        "",
    ),
    risky("erl", "", "", "eval s run", ""),
    risky(
        "ghc guile clisp octave matlab ocaml sage maxima tclsh",
        "ecxr",
        "",
        "eval expression batch batch-string",
        "",
    ),
    risky("sbcl ccl ecl", "", "", "eval load script", ""),
    risky("java", "", "", "javaagent", ""),
    risky("mvn", "", "", "Dexec.executable Dexec.args", ""),
    risky("mongosh mongo", "", "", "eval", ""),
    risky("composer", "", "", "plugin-dir", ""),
    risky(
        "docker podman nerdctl",
        "",
        "",
        "privileged cap-add device security-opt group-add volumes-from",
        "cap-drop",
    ),
    risky("strace ltrace", "", "", "", ""),
];
