import { describeOnNode, withoutServer } from '../test/embedded/other-node';

describeOnNode(22, withoutServer);
