import type { AgentOutput } from '../core/guard/agent-run.ts';

const REDACTED = '[secret]';

/** The output with each secret replaced, also as programs write it: quoted for a shell, escaped, in a URL, in base64. */
export function redactOutput({ stdout, stderr, isCut }: AgentOutput, secrets: readonly string[]): AgentOutput {
  return { stdout: redact(stdout, isCut, secrets), stderr: redact(stderr, isCut, secrets), isCut };
}

function redact(text: string, isCut: boolean, secrets: readonly string[]): string {
  const forms = [...new Set(secrets.flatMap(formsOf))].toSorted((a, b) => b.length - a.length);
  const [longest] = forms;
  if (longest === undefined) return text;
  const redacted = text.replace(new RegExp(forms.map(literally).join('|'), 'g'), REDACTED);
  // Where the output was cut off, the beginning of one may stand.
  return isCut ? redacted.slice(0, Math.max(0, redacted.length - longest.length + 1)) : redacted;
}

function formsOf(secret: string): readonly string[] {
  const base64 = Buffer.from(secret).toString('base64');
  const xml = secret.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
  return [
    secret,
    secret.replaceAll("'", `'"'"'`),
    secret.replaceAll('\\', '\\\\').replaceAll("'", "\\'"),
    JSON.stringify(secret).slice(1, -1),
    encodeURIComponent(secret),
    base64,
    xml,
    xml.replaceAll('"', '&quot;'),
  ];
}

const literally = (text: string): string => text.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&');
