namespace Whimbrel.Tool;

/// <summary>One client of <c>serve push</c>. A connected client is a member of the server's group; its data is
/// discarded.</summary>
internal sealed class PushSession(PushProducer producer) : Session
{
    protected override void OnConnected() => producer.Wake();
}
