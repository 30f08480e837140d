/** What kind of service a unit is, judged by the names that Debian, Fedora and the projects themselves use. */
type Role = {
  readonly role: string;
  readonly units: RegExp;
  readonly priority: number;
};

/** The first match counts. A higher priority is evicted later. */
const ROLES: readonly Role[] = [
  {
    role: 'a database or queue',
    units:
      /postgres|mysql|mariadb|mongo|redis|valkey|memcached|etcd|elasticsearch|opensearch|influx|cassandra|rabbitmq|kafka|clickhouse|ldap|slapd/,
    priority: 1_000,
  },
  {
    role: 'work that can be repeated',
    units: /batch|backup|cron|anacron|^atd|apt-daily|unattended|update|upgrade|index|build|runner|worker|job|report/,
    priority: 0,
  },
  {
    role: 'it serves requests',
    units:
      /nginx|apache|httpd|haproxy|caddy|traefik|varnish|php.*fpm|tomcat|gunicorn|uwsgi|postfix|exim|dovecot|bind9|named|unbound|dnsmasq/,
    priority: 500,
  },
];
const OTHER = { role: 'a service', priority: 100 } as const;

export function roleOf(unit: string): { readonly role: string; readonly priority: number } {
  return ROLES.find(({ units }) => units.test(unit.toLowerCase())) ?? OTHER;
}

/** Without these, the machine is unreachable, does not log, or cannot start services: they never become pods. */
const OF_THE_SYSTEM: readonly { readonly units: RegExp; readonly why: string }[] = [
  { units: /^(init\.scope|dbus(-broker)?\.service|nodewarden.*\.service)$/, why: 'nodewarden never stops it' },
  { units: /^(systemd-|user@|user-runtime-dir@)/, why: 'it belongs to systemd' },
  {
    units: /^((serial-|console-)?getty@|container-getty@|console-getty|sshd?(@|\.)|dropbear)/,
    why: 'you log in through it',
  },
  {
    units:
      /^(NetworkManager|networking|wpa_supplicant|dhcp|dhclient|ifup@|connman|iwd|firewalld|nftables|wg-quick|openvpn|chrony|ntp|tailscaled|zerotier|strongswan|frr\.|bird\.|keepalived)/,
    why: 'the network depends on it',
  },
  {
    units: /^(rsyslog|syslog|auditd|polkit|udisks2|multipathd|lvm2|acpid|irqbalance)/,
    why: 'it belongs to the system',
  },
  {
    units: /^(docker|containerd|crio|podman|conmon|kubelet|libvirtd|virtqemud|lxd|incus)(\.|@|-)/,
    why: 'it runs containers or machines, which are pods of their own',
  },
];

/** Why no manifest is proposed for a unit of this name; null: one is. */
export function ofTheSystem(unit: string): string | null {
  if (/^docker-[0-9a-f]{64}\.scope$/.test(unit)) return null;
  return OF_THE_SYSTEM.find(({ units }) => units.test(unit))?.why ?? null;
}
