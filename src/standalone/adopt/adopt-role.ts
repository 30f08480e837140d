/** What kind of service a unit is, judged by the names that Debian, Fedora and the projects themselves use. */
type Role = {
  readonly role: string;
  readonly units: RegExp;
  readonly priority: number;
};

/** Whole words of a name, such as `mysql` in `mysqld@1`, `mysql8` and `my-mysql`, and not in `mysqlish`. */
const words = (names: string): RegExp => new RegExp(`(?<![a-z0-9])(?:${names})d?\\d*(?![a-z0-9])`);

/** The first match counts. A higher priority is evicted later. */
const ROLES: readonly Role[] = [
  // What is done for a database, and named after it.
  { role: 'work that can be repeated', units: words('backups?|dump|cleanup|cleaner'), priority: 0 },
  { role: 'a helper of something else', units: words('exporter|migrate|migrations?'), priority: 100 },
  {
    role: 'a database, queue or store',
    units: words(
      'postgres|postgresql|timescaledb|mysql|mariadb|mssql|mongo|mongodb|mongos|redis|valkey|keydb|memcached|etcd|elasticsearch|opensearch|solr|influx|influxdb|victoriametrics|prometheus(?!-)|cassandra|scylla|clickhouse|cockroach|cockroachdb|tidb|tikv|foundationdb|couchdb|neo4j|arangodb|ldap|openldap|slapd|rabbitmq|kafka|zookeeper|mosquitto|nats|activemq|artemis|pulsar|emqx|beanstalk|consul(?!-)|vault(?!-)|minio|queue(?=$|\\.service$)',
    ),
    priority: 1_000,
  },
  {
    role: 'work that can be repeated',
    units: words(
      'batch|cron|cronie|fcron|anacron|atd|updates?|updatedb|upgrades?|index|build|runners?|workers?|jobs?|reports?',
    ),
    priority: 0,
  },
  {
    role: 'it serves requests',
    units: words(
      'nginx|apache|httpd|lighttpd|haproxy|caddy|traefik|varnish|php[\\d.]*-?fpm|tomcat|gunicorn|uwsgi|postfix|exim|dovecot|bind9|named|unbound|dnsmasq',
    ),
    priority: 500,
  },
];
const OTHER = { role: 'not known by its name', priority: 100 } as const;

export function roleOf(unit: string): { readonly role: string; readonly priority: number } {
  const name = unit.toLowerCase().replace(/\\x[0-9a-f]{2}/g, '-');
  return ROLES.find(({ units }) => units.test(name)) ?? OTHER;
}

/** A unit whose name begins with one of these as a whole word. */
const wordsAtStart = (names: string): RegExp => new RegExp(`^(?:${names})(?![A-Za-z0-9])`);

/**
 * Without these, the machine or its disks are unreachable, nobody logs in, it does not log, it resets itself, or it cannot start
 * services: they never become pods.
 */
const OF_THE_SYSTEM: readonly { readonly units: RegExp; readonly why: string }[] = [
  { units: /^(init\.scope|dbus(-broker)?\.service|nodewarden.*\.service)$/, why: 'nodewarden never stops it' },
  { units: /^(systemd-|user@|user-runtime-dir@)/, why: 'it belongs to systemd' },
  {
    units:
      /^((serial-|console-)?getty@|container-getty@|console-getty|sshd?(@|\.)|dropbear|amazon-ssm-agent|google-guest-agent|walinuxagent|waagent|qemu-guest-agent|cockpit|teleport|xrdp)/,
    why: 'you log in through it',
  },
  {
    units: wordsAtStart(
      'sssd|nslcd|nscd|nsncd|unscd|winbindd?|samba-ad-dc|krb5-kdc|krb5kdc|oddjobd|gdm3?|lightdm|sddm|lxdm|xdm|greetd|display-manager',
    ),
    why: 'logins depend on it',
  },
  {
    units: wordsAtStart(
      'open-iscsi|iscsid?|iscsiuio|tgtd?|target|targetcli|multipathd|mdadm|mdmon|mdmonitor|dm-event|lvm2|lvmlockd|lvmlocks|stratisd|zfs|nbd-client|nbd-server|rbdmap|fcoe|rpcbind|rpc-statd|rpc-gssd|gssproxy|nfs|cachefilesd|autofs|ceph|glusterd|drbd',
    ),
    why: 'disks or mounts depend on it',
  },
  {
    units: wordsAtStart(
      'watchdogd?|bmc-watchdog|wd_keepalive|wdmd|sanlock|virtlockd|sbd|corosync|pacemaker|pcsd|dlm|pve-ha-lrm|pve-ha-crm|pve-cluster',
    ),
    why: 'the machine may be reset without it',
  },
  {
    units:
      /^(NetworkManager|networking|wpa_supplicant|dhcp|dhclient|ifup@|connman|iwd|firewalld|nftables|wg-quick|openvpn|chrony|ntp|tailscaled|zerotier|strongswan|frr\.|bird\.|keepalived|ModemManager|openvswitch|ovs-|ovsdb-|teamd@|pppd?@|ipsec\.)/,
    why: 'the network depends on it',
  },
  {
    units: wordsAtStart(
      'apt-daily|unattended-upgrades|dnf-automatic|dnf5-automatic|packagekit|rpm-ostree|fwupd|fsck|mdcheck|btrfs-scrub|xfs_scrub|e2scrub',
    ),
    why: 'its work on the system or its disks must not be cut off',
  },
  {
    units: wordsAtStart('nut|upsmon|upsd|ups-monitor|apcupsd|pwrstatd'),
    why: 'in a power failure, the machine would not be shut down without it',
  },
  {
    units: wordsAtStart('earlyoom|nohang|nohang-desktop|oomd'),
    why: 'it kills under memory pressure too: nodewarden doctor says what to do about it',
  },
  {
    units: /^(rsyslog|syslog|auditd|polkit|udisks2|acpid|irqbalance)/,
    why: 'it belongs to the system',
  },
  {
    units:
      /^(docker|containerd|crio|podman|conmon|kubelet|k3s|k0scontroller|k0sworker|rke2|nomad|snapd|libvirtd|virtqemud|virtlogd|lxd|lxc|lxcfs|incus)(\.|@|-)/,
    why: 'it runs containers or machines, which are pods of their own',
  },
];

/** Why no manifest is proposed for a unit of this name; null: one is. */
export function ofTheSystem(unit: string): string | null {
  if (/^docker-[0-9a-f]{64}\.scope$/.test(unit)) return null;
  return OF_THE_SYSTEM.find(({ units }) => units.test(unit))?.why ?? null;
}
