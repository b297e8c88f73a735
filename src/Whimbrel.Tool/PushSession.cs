namespace Whimbrel.Tool;

/// <summary>One client of <c>serve push</c>. Being connected makes it a member of the server's group; what it sends is thrown away.</summary>
internal sealed class PushSession(PushProducer producer) : Session
{
    protected override void OnConnected() => producer.Wake();
}
