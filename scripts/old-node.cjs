// Refuses an old Node.js in one line, before anything is loaded that it could not even read: in words that any Node.js
// understands. Runs before each build, and is the first line of the bundle (build.mjs).
var needed = [20, 19]; // as `engines` in package.json
var found = process.versions.node.split('.').map(Number);
var said = ['nodewarden needs Node.js', needed.join('.'), 'or newer; this is', process.version];
if (found[0] < needed[0] || (found[0] === needed[0] && found[1] < needed[1])) {
  process.stderr.write(said.join(' ').concat(' (', process.execPath, ')\n'));
  process.exit(1);
}
