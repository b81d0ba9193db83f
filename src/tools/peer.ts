// Packages that a subpath needs, and the library does not: loaded when they are used, and asked for in one line where they are missing.

/** @internal What `load` gives. @throws {Error} `MODULE_NOT_FOUND`: says what to install. */
export function loadPeer<T>(load: () => T, subpath: string, install: string): T {
  try {
    return load();
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw cause;
    throw Object.assign(new Error(`${subpath} needs a package: npm install ${install}`, { cause }), {
      code: 'MODULE_NOT_FOUND',
    });
  }
}
