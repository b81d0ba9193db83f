// Why a mutant that survives may: by its file, a piece of its line, and perhaps its mutator or what it puts there.
'use strict';

const reasons = {};

/** The reason of a survivor; undefined where nobody has one. */
exports.reasonOf = (file, { code, mutator, replacement }) =>
  (reasons[file] ?? []).find(
    (each) =>
      code.includes(each.code) &&
      (each.mutator ?? mutator) === mutator &&
      (each.to === undefined || replacement.includes(each.to)),
  )?.why;
