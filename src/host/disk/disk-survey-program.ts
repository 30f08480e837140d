/**
 * The part of the child's program (disk-walk-program.ts) that finds what fills a file system:
 * `{"id":…,"survey":path,"by":"bytes"|"inodes","least":…,"deadlineMs":…,"maxLinked":…}` is answered with
 * `[id,"found",[[bytes,inodes,uid,path],…],isComplete]`. A directory is reported if it holds at least `least`, not counting
 * reported directories below it: this finds the deepest directories that explain the usage. The rest is reported last, as the
 * file system's own directory.
 */
export const SURVEY_PROGRAM = `
// Few enough to fit into one line, however names are escaped.
const MAX_TOLD = 16;
const MAX_TOLD_PATH = 256;

// Used where no single directory is examined.
const WHOLE = { index: 0, linkedBytes: 0, linkedInodes: 0, forgotten: [0, 0, 0, 0] };

function survey({ id, survey: path, by, least, deadlineMs, maxLinked }) {
  let root = null;
  try {
    root = open(path);
    const told = [];
    const state = {
      ...begin(id, deadlineMs, () => []),
      linked: linkedFiles(maxLinked),
      left: (level, above) => {
        const isRoot = above.length === 0;
        if (isRoot || (level.sum[by] >= least && told.length < MAX_TOLD)) {
          const names = [...above.slice(1), ...(isRoot ? [] : [level])].map(({ name }) => name);
          told.push([Math.floor(level.sum.bytes), Math.floor(level.sum.inodes), level.sum.uid, pathBelow(path, names)]);
        } else {
          const into = above.at(-1).sum;
          into.bytes += level.sum.bytes;
          into.inodes += level.sum.inodes;
          vote(into, level.sum.uid, level.sum.lead);
        }
      },
    };
    tree(state, root.fd, root.stats, () => true, (name, found, level) => {
      const stats = statsOf(state, name);
      if (stats === null || stats.dev !== root.stats.dev) return null;
      const share = isOne(stats, WHOLE) ? 1 : shareOf(state, WHOLE, stats, stats.blocks * 512);
      level.sum.bytes += stats.blocks * 512 * share;
      level.sum.inodes += share;
      vote(level.sum, stats.uid, (by === 'bytes' ? stats.blocks * 512 : 1) * share);
      return stats.isDirectory() ? stats : null;
    });
    say(id, 'found', told, state.isComplete);
  } catch (error) {
    say(id, 'failed', path, String(error.message));
  } finally {
    process.chdir('/');
    if (root !== null) fs.closeSync(root.fd);
  }
}

// Majority vote: an owner of more than half is left after pairing off all others.
function vote(sum, uid, weight) {
  if (sum.uid === uid) sum.lead += weight;
  else if (weight > sum.lead) [sum.uid, sum.lead] = [uid, weight - sum.lead];
  else sum.lead -= weight;
}

function pathBelow(path, names) {
  const asText = (name) => (typeof name === 'string' ? name : name.toString('utf8'));
  let text = path === '/' ? '' : path;
  for (const name of names) {
    if (text.length > MAX_TOLD_PATH) return text + '/...';
    text += '/' + asText(name);
  }
  return text === '' ? '/' : text;
}
`;
