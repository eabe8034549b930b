/* A test of the tests of tensors. */
#ifndef WEFT_TESTS_FACTORY_MEMORY_H
#define WEFT_TESTS_FACTORY_MEMORY_H

/* No rank holds more than its shard while a factory's tensor is made and its tasks run. */
void test_factories_make_shards_alone(void **state);

#endif
