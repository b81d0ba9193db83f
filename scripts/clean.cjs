// Removes the folders named on the command line, on every platform. A folder that is not there is as good as removed.
const { rmSync } = require('node:fs');

for (const folder of process.argv.slice(2)) rmSync(folder, { recursive: true, force: true });
