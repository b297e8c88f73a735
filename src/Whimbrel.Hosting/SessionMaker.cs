using System.Diagnostics.CodeAnalysis;
using Microsoft.Extensions.DependencyInjection;
using Microsoft.Extensions.Logging;

namespace Whimbrel.Hosting;

/// <summary>
/// Creates sessions by their constructor, with services, on the loop of their connection. A scope per session is
/// disposed once, on the thread pool, after the session's last callback, or at once if its constructor threw.
/// </summary>
internal sealed class SessionMaker<[DynamicallyAccessedMembers(
    DynamicallyAccessedMemberTypes.PublicConstructors)] TSession>(HostedServer hosted, bool hasScope)
    where TSession : Session
{
    // Compiled once, so that no connection needs reflection.
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

        // Posted, because the session gets its connection after the factory has returned.
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
            // The session never had a connection.
        }

        hosted.Scopes.End(scope);
    }
}
