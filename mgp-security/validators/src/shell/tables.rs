//! Tables of commands that are refused whatever their arguments are, and of commands that are allowed only in some
//! forms.

/// The commands that are always refused: each entry has the reason, and the names of the commands.
pub(super) const NEVER: &[(&str, &str)] = &[
    (
        "changes privileges",
        "\
        sudo su doas pkexec runuser sudoedit visudo setpriv capsh newgrp sg gksu gksudo kdesu kdesudo \
        machinectl chroot unshare nsenter systemd-run run0 setcap dzdo pfexec su-exec gosu sesu super \
        calife newuidmap newgidmap pam_exec polkit-agent-helper-1 fakechroot please runas gsudo ksu \
        sudo-rs doasedit start-as systemd-nspawn s6-setuidgid setuidgid dpkg-statoverride suexec",
    ),
    (
        "changes the power state",
        "\
        reboot shutdown halt poweroff telinit init kexec pm-suspend pm-hibernate systemctl-poweroff \
        rtcwake upsdrvctl ipmitool racadm acpitool gnome-session-quit xfce4-session-logout \
        stop-computer restart-computer",
    ),
    (
        "changes disks or file systems",
        "\
        mkswap mke2fs mkdosfs mkntfs mkudffs newfs format cfdisk blkdiscard shred srm wipe scrub \
        swapoff lvremove vgremove pvremove lvcreate vgcreate pvcreate lvresize lvreduce vgreduce \
        badblocks resize2fs debugfs dmsetup flashrom fwupdmgr grub-install grub2-install fsck e2fsck \
        xfs_repair umount fusermount partprobe partx \
        dd_rescue ddrescue diskpart fstrim trash-empty pivot_root switch_root lvextend \
        vgextend pvmove lvconvert sg_format hdiutil asr gpart gnop multipath veracrypt bcache make-bcache \
        zerofree sfill nwipe dban growpart xfs_growfs btrfstune jfs_tune reiserfstune \
        rimraf del-cli format-volume clear-disk initialize-disk remove-partition clear-recyclebin",
    ),
    (
        "changes users",
        "\
        useradd userdel usermod adduser deluser addgroup delgroup groupadd groupdel groupmod \
        chpasswd chgpasswd chsh chfn gpasswd vipw vigr newusers pwconv faillock groupmems lchsh \
        luseradd lusermod lpasswd luserdel homectl dscl sysadminctl pw smbpasswd pdbedit authconfig \
        new-localuser remove-localuser set-localuser add-localgroupmember dseditgroup takeown \
        authselect pam-auth-update grpconv pwunconv kadmin samba-tool",
    ),
    (
        "changes the running kernel or its services",
        "\
        insmod rmmod killall5 setenforce aa-disable aa-complain aa-teardown aa-remove-unknown \
        bpftool start-stop-daemon update-rc.d \
        sulogin agetty depmod kldload kldunload kextload kextunload kmutil kpatch rc-service rc-update \
        invoke-rc.d s6-svc setsebool semanage apparmor_parser ipset iptables-restore ip6tables-restore ovs-vsctl \
        iwconfig hwclock ntpdate adjtimex nssm update-grub grub-mkconfig grub-set-default \
        set-service stop-service restart-service remove-service new-service set-executionpolicy \
        set-mppreference add-mppreference register-scheduledtask clear-eventlog remove-eventlog \
        dracut mkinitcpio update-initramfs nvram bless",
    ),
    (
        "executes text or other commands",
        "\
        eval source . alias trap enable bind let fc coproc at batch run-parts script daemonize anacron \
        ex ed red rvim rview osascript wish expect jrunscript iex ghci irb pry jshell gdb lldb dc runscript \
        cpulimit dbus-run-session mshta wscript cscript rundll32 regsvr32 bitsadmin wmic \
        msiexec del rd erase bpftrace stap dtrace ansible knife salt salt-call pdsh \
        pssh clush parallel-ssh dsh capistrano run-mailcap see xdg-open gtester jjs bsh lftp msfconsole \
        invoke-expression invoke-command icm start-process saps start-job sajb start-threadjob \
        invoke-item add-type invoke-cimmethod invoke-wmimethod enter-pssession new-pssession \
        register-objectevent set-itemproperty new-itemproperty remove-itemproperty \
        byebug ghci-ng scriptreplay gcore uftrace certbot pexec zsoelim iexpress installutil msbuild cmstp",
    ),
];

/// Reserved words of shells; they begin a construct that is more than a simple command.
pub(super) const RESERVED: &[&str] = &[
    "if", "then", "else", "elif", "fi", "do", "done", "case", "esac", "while", "until", "for",
    "in", "function", "select", "coproc", "[[", "]]", "{", "}", "!", "((", "foreach", "end",
    "repeat",
];

/// Commands that are allowed only if their first argument is one of the words in the second column; `()` means that the
/// command has no arguments. The commands for which the options decide are in
/// [`only_reads`](super::reading::only_reads).
pub(super) const ONLY: &[(&str, &str)] = &[
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
    ("nft", "list"),
    (
        "tmux",
        "\
        ls list-sessions list-windows list-panes -V info has-session new new-session neww \
        new-window attach attach-session capture-pane kill-session kill-window",
    ),
    ("screen", "-ls -list --list"),
    (
        "terraform",
        "\
        () init plan validate fmt show output version providers graph state workspace get",
    ),
    ("tofu", "init plan validate fmt show output version providers graph get"),
    ("apt-key", "list"),
    (
        "snap",
        "list info find version changes change tasks connections interfaces services warnings get",
    ),
    ("flatpak", "list info search --version remotes"),
    ("virsh", "list info dominfo domstate version nodeinfo"),
    ("vboxmanage", "list showvminfo --version"),
    ("multipass", "list info version"),
    ("lxc", "list info config-show version"),
    ("vagrant", "status version box global-status validate"),
    ("chronyc", "tracking sources sourcestats activity"),
    ("domainname", "()"),
    ("btrfs", "filesystem --version version"),
    ("diskutil", "list info"),
    ("networksetup", "-get* -list* -is*"),
    ("systemsetup", "-get* -list*"),
    ("pmset", "-g"),
    ("spctl", "--status --assess"),
    ("fdesetup", "status list isactive"),
    ("profiles", "list show status"),
    (
        "tmutil",
        "status version destinationinfo latestbackup listbackups listlocalsnapshots isexcluded",
    ),
    ("net", "() view statistics config help helpmsg"),
    ("kmod", "list static-nodes"),
    ("dkms", "status"),
    ("supervisorctl", "status avail pid version"),
    ("sv", "status"),
    ("initctl", "list status version"),
    ("brctl", "show showmacs showstp"),
    ("bootctl", "() status list is-installed"),
    ("csrutil", "status"),
    ("cryptsetup", "status isLuks luksUUID benchmark"),
    ("reg", "query"),
    ("sc", "query queryex qc qdescription"),
    ("schtasks", "/query"),
    ("certutil", "-hashfile"),
    // Other commands of `mgp` are refused: a model that could decide about its own calls would make each decision of an
    // operator void.
    ("mgp", "status doctor why guard help logs sessions tools audit"),
    ("bcdedit", "() /enum"),
    ("vssadmin", "list"),
    ("wbadmin", "get"),
    ("fsutil", "fsinfo"),
    ("cipher", "()"),
    ("wevtutil", "el enum-logs gl get-log qe query-events"),
];

/// Commands and their subcommands in [`ONLY`] that are allowed only if the next argument is one of the words in the
/// third column.
pub(super) const SECOND: &[(&str, &str, &str)] = &[
    ("btrfs", "filesystem", "show usage df du"),
    ("terraform", "workspace", "list show select new"),
    ("terraform", "state", "list show pull mv rm"),
    ("mgp", "tools", "ls search"),
    ("mgp", "audit", "query verify"),
];

/// Options with which commands execute, delete or load something.
pub(super) struct Risky {
    pub(super) names: &'static str,
    /// Short options with which the command executes, deletes or loads something.
    pub(super) short: &'static str,
    /// Short options that take a value. The rest of a group of short options after such a letter is the value.
    pub(super) valued: &'static str,
    /// Long options with which the command executes, deletes or loads something, without their dashes. After two
    /// dashes, an abbreviation of the option also matches; after one dash, only the full name does.
    pub(super) long: &'static str,
    /// Full names of harmless options that begin like an option in `long`.
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
    // `-v` of `chattr` has a value; for these commands, it means verbose output.
    risky("chmod chown chgrp", "R", "", "recursive", ""),
    risky("setfacl chattr chcon restorecon", "R", "mMxXv", "recursive restore", ""),
    risky(
        "tar bsdtar gtar",
        "F",
        "fCbTXgKVHNI",
        "\
        remove-files checkpoint-action to-command rsh-command rmt-command \
        info-script new-volume-script recursive-unlink unlink-first index-file volno-file",
        "checkpoint to-stdout",
    ),
    risky("wsl", "", "", "unregister", ""),
    risky("cpio", "", "", "rsh-command", ""),
    risky("zip", "m", "bnPstx", "move unzip-command TT", ""),
    risky(
        "rsync",
        "",
        "efTBM@",
        "\
        rsync-path delete delete-before delete-during delete-delay delete-after delete-excluded \
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
    risky("ping ping6", "f", "cwWiIsStpQMmlTF", "flood", ""),
    risky("nmap", "", "", "script interactive datadir servicedb", ""),
    risky(
        "openssl",
        "",
        "",
        "engine provider provider-path loadengine config engine_impl pre post",
        "",
    ),
    risky(
        "gpg gpg2",
        "",
        "",
        "\
        exec-path photo-viewer agent-program dirmngr-program pinentry-program homedir options \
        delete-secret-keys delete-secret-and-public-keys",
        "",
    ),
    risky("ssh-keygen", "D", "fbtCNPIOnVzsmMaEFLRrWY", "", ""),
    risky("date", "s", "dfrIvz", "set", ""),
    risky("ssh-add", "s", "", "", ""),
    risky(
        "gcc g++ cc c++ clang clang++ cpp gfortran tcc",
        "",
        "",
        "wrapper fplugin specs load Xclang fpass-plugin iplugindir run",
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
    risky("gradle gradlew", "I", "bcgpPDx", "init-script", "include-build"),
    risky("hg", "", "", "config ssh remotecmd", ""),
    risky("bazel bazelisk", "", "", "run_under", ""),
    risky("yt-dlp youtube-dl", "", "", "exec exec-before-download netrc-cmd", ""),
    risky("svn", "", "", "config-option diff-cmd diff3-cmd editor-cmd", ""),
    risky("apt apt-get apt-cache", "oc", "t", "option config-file", ""),
    risky(
        "dpkg",
        "iPr",
        "LSlscWxf",
        "install purge remove unpack configure pre-invoke post-invoke",
        "remove-info",
    ),
    risky(
        "rpm rpm2cpio rpmquery rpmdb rpmverify",
        "iUFeE",
        "qp",
        "install upgrade erase eval pipe define",
        "",
    ),
    risky("yum dnf", "c", "", "config", ""),
    risky(
        "pip pip3",
        "",
        "",
        "config-settings install-option global-option python",
        "python-version progress-bar",
    ),
    risky("7z 7za 7zr", "", "", "sdel", ""),
    risky("mysql mariadb", "", "", "pager tee plugin-dir init-command", ""),
    risky("ffmpeg", "", "", "filter_script", ""),
    risky(
        "pdflatex latex xelatex lualatex tex pdftex luatex xetex etex",
        "",
        "",
        "shell-escape enable-write18 write18",
        "",
    ),
    risky("gs ghostscript", "", "", "dNOSAFER dDELAYSAFER", ""),
    risky("emacs emacsclient", "fleLQ", "", "eval execute funcall load script batch insert", ""),
    risky("logrotate", "", "", "state log", ""),
    // With one dash, `-br` means brief output and is allowed.
    risky("ip", "", "", "b ba bat batc batch", ""),
    risky("journalctl", "", "", "vacuum-size vacuum-time vacuum-files rotate flush setup-keys", ""),
    risky("dbus-send gdbus busctl", "", "", "system address", ""),
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
    risky("node nodejs", "epi", "Cr", "eval print interactive", "print-"),
    risky("perl", "eEd", "IMmCxFDi", "", ""),
    risky("ruby jruby truffleruby", "e", "rIEFCxi", "", ""),
    risky(
        "php",
        "rBREaSd",
        "fczt",
        "run process-code process-begin process-end interactive server define",
        "",
    ),
    risky("lua luajit texlua", "eil", "", "", ""),
    risky("r", "ef", "", "interactive", ""),
    risky("rscript littler", "e", "", "", ""),
    risky("julia", "eEL", "pCJt", "eval print load", ""),
    risky(
        "groovy scala kotlin kotlinc elixir swift racket raku perl6 crystal nim coffee",
        "e",
        "",
        "eval rpc-eval execute",
        "",
    ),
    risky("erl", "", "", "eval s run", ""),
    risky(
        "ghc guile clisp octave octave-cli matlab ocaml sage maxima tclsh",
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
    risky("gnuplot", "e", "", "", ""),
    risky("gimp gimp-console", "b", "", "batch batch-interpreter", ""),
    risky("puppet", "e", "", "execute", ""),
    risky("slsh", "e", "fvgnti", "eval", ""),
    // The files that these options name can contain servers, which `mgp doctor` starts.
    risky("mgp", "", "", "config state", ""),
    risky("sqlmap", "", "", "eval os-cmd os-shell os-pwn alert", ""),
    risky("pidstat scrot", "e", "", "exec", ""),
    risky("ethtool", "sKGACLXNUEfp", "", "change set-eee set-channels set-ring", ""),
    risky("restic", "", "", "password-command", ""),
    risky("borg", "", "", "rsh remote-path", ""),
    risky(
        "openvpn",
        "",
        "",
        "\
        up down script-security route-up route-pre-down tls-verify auth-user-pass-verify plugin \
        client-connect client-disconnect learn-address ipchange config",
        "",
    ),
    risky("smbclient", "c", "UIpWNm", "command", ""),
    risky("mail mailx s-nail mutt", "eS", "sucbar", "exec", ""),
    risky("pandoc", "FL", "otfsVM", "filter lua-filter pdf-engine", "from-format"),
    risky("pygmentize", "x", "lfoOP", "", ""),
    risky("tshark wireshark dumpcap", "X", "irwfYcTeE", "", ""),
    risky("troff groff nroff eqn tbl soelim", "UC", "mTFdoWw", "", ""),
    risky("exiftool", "", "", "config if if2 if3 execute", ""),
    risky("nginx httpd apache", "gCc", "p", "", ""),
    risky("fzf sk", "", "", "preview bind with-shell", "preview-window bind-"),
    risky("helm", "", "", "post-renderer", ""),
    risky("kustomize", "", "", "enable-exec enable-alpha-plugins network", ""),
    risky("mlr", "", "", "prepipe prepipex", ""),
    risky(
        "mpv vlc mplayer",
        "",
        "",
        "script scripts lua-file input-conf input-ipc-server extraintf config-dir",
        "",
    ),
    risky("cpan cpanm", "", "", "configure-args", ""),
    risky("gem", "e", "", "editor", ""),
    risky("clojure clj bb lein", "eM", "", "eval", ""),
    risky(
        "qjs mujs d8 jsc gforth janet fennel pike chez scheme mit-scheme gsi",
        "ec",
        "",
        "eval",
        "",
    ),
    risky("swipl gprolog yap", "gtc", "fs", "goal query-goal entry-goal consult", ""),
    risky("tsx ts-node babel-node esno zx jiti", "epr", "", "eval print require import loader", ""),
    risky("mix", "e", "", "eval rpc", ""),
    risky("v zig nim dart", "", "", "eval", ""),
    risky("dotnet", "", "", "additionalprobingpath", ""),
    risky("mpirun mpiexec orterun prun", "", "", "rsh-agent launch-agent", ""),
    risky("yq", "", "", "exec", "exit-status"),
    risky("ctags", "", "", "options options-maybe", ""),
    risky("unzip", "K", "dxPO", "", ""),
    risky("nano pico", "s", "Tor", "speller rcfile", ""),
    risky("ispell aspell enchant", "", "", "conf per-conf", ""),
    risky("redis-cli", "", "", "eval functions-rdb pipe", ""),
    risky("logstash flume fluentd", "e", "", "config.string", ""),
    risky(
        "chromium chrome google-chrome firefox",
        "",
        "",
        "renderer-cmd-prefix utility-cmd-prefix gpu-launcher load-extension remote-debugging-port",
        "",
    ),
    risky("terraform tofu packer pulumi", "", "", "exec", ""),
    risky("bat batcat delta", "", "", "pager", ""),
];
