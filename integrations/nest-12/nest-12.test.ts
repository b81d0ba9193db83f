import { describeNest } from '../nest-suite';

describeNest(12, require);
