// The packed library under older compilers, which take ten times as long as TypeScript 7: each module system once, and each strictness once.
import { compile, moduleSystems, strictness, writePrograms } from '../test/package/compile';
import { type Project, projectWith } from '../test/package/packed';

describe('compiles with what is written against it, as face.d.ts does', function () {
  this.timeout(180_000);
  let project: Project;

  before(async () => {
    project = await projectWith(['uuid', '@types/node']);
    writePrograms(project.folder);
  });
  after(() => project?.remove());

  for (const [row, moduleSystem] of Object.keys(moduleSystems).entries()) {
    const [name, options] = Object.entries(strictness)[row % 3]!;
    for (const compiler of ['typescript-5.9', 'typescript-5.0'])
      it(`${moduleSystem}, ${name}, by ${compiler}`, () => compile(project.folder, compiler, moduleSystem, options));
  }
});
