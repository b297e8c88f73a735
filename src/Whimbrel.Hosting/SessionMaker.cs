using System.Diagnostics.CodeAnalysis;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace Whimbrel.Hosting;

/// <summary>
/// Makes sessions by their constructor, with services, on the loop of their connection. With a scope each the scope belongs to the session: it is disposed
/// once, on the thread pool, when the session has had its last callback, or at once when its constructor threw.
/// </summary>
internal sealed class SessionMaker<[DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] TSession>(HostedServer hosted, bool hasScope)
    where TSession : Session
{
    // Looked for once: the constructor with its services is code then, and not reflection for each connection.
    private static readonly ObjectFactory<TSession> s_make = ActivatorUtilities.CreateFactory<TSession>([]);

    internal Session Make(SessionContext context)
    {
        Session session = hasScope ? MakeWithScope(context) : s_make(hosted.Services, null);
        hosted.Limit(session);
        return session;
    }

    private TSession MakeWithScope(SessionContext context)
    {
        AsyncServiceScope scope = hosted.Services.CreateAsyncScope();
        hosted.Scopes.Enter();
        TSession session;
        try
        {
            session = s_make(scope.ServiceProvider, null);
        }
        catch
        {
            hosted.Scopes.End(scope);
            throw;
        }

        // Not before the session has its connection, which is when the factory has returned.
        if (!context.Loop.Post(() => _ = EndWithAsync(session, scope))) hosted.Scopes.End(scope);
        return session;
    }

    private async Task EndWithAsync(TSession session, AsyncServiceScope scope)
    {
        try
        {
            await session.EndedAsync();
        }
        catch (InvalidOperationException)
        {
            // It never had a connection.
        }

        hosted.Scopes.End(scope);
    }
}
