// Packages that a subpath needs but the library does not. They are loaded when they are used. If one is missing, the error says what to
// install.

/** @internal Returns the result of `load`. @throws {Error} `MODULE_NOT_FOUND`: says what to install. */
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
