namespace Whimbrel.Tests.RabbitMq;

[CollectionDefinition(nameof(RabbitMqServer))]
public sealed class RabbitMqCollection : ICollectionFixture<RabbitMqServer>;
