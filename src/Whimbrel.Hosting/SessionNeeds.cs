using System.Diagnostics.CodeAnalysis;
using System.Reflection;
using Microsoft.Extensions.DependencyInjection;

namespace Whimbrel.Hosting;

/// <summary>
/// Checks the services of a session's constructor when the host starts. Otherwise every client would fail.
/// </summary>
internal static class SessionNeeds
{
    internal static IEnumerable<string> FindMistakes(
        [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] Type session,
        IServiceProvider services, IServiceCollection registered, bool hasScope)
    {
        if (FindConstructor(session, out string? mistake) is not { } constructor)
        {
            yield return mistake;
            yield break;
        }

        IServiceProviderIsService? known = services.GetService<IServiceProviderIsService>();
        foreach (ParameterInfo parameter in constructor.GetParameters())
        {
            Type type = parameter.ParameterType;
            object? key = parameter.GetCustomAttribute<FromKeyedServicesAttribute>()?.Key;
            string what = $"{session.Name} asks for {NameOf(type)} "
                + $"{parameter.Name}{(key is null ? "" : $" of the key {key}")} in its constructor, and ";
            bool? isThere = key is null
                ? known?.IsService(type)
                : (known as IServiceProviderIsKeyedService)?.IsKeyedService(type, key);
            if (isThere == false && !parameter.HasDefaultValue)
                yield return $"{what}no such service is registered: "
                    + $"builder.Services.Add{(key is null ? "" : "Keyed")}Singleton<{NameOf(type)}>("
                    + $"{(key is null ? "" : $"\"{key}\"")})";
            else if (!hasScope && key is null && IsScoped(type, registered))
                yield return $"{what}that is a service of scopes, which all sessions would share permanently: "
                    + $"AddWhimbrelServer<{session.Name}>(..., scopePerSession: true) gives each its own";
        }
    }

    private static ConstructorInfo? FindConstructor(
        [DynamicallyAccessedMembers(DynamicallyAccessedMemberTypes.PublicConstructors)] Type session,
        out string mistake)
    {
        ConstructorInfo[] all = session.GetConstructors();
        ConstructorInfo[] marked = [.. all.Where(
            static c => c.IsDefined(typeof(ActivatorUtilitiesConstructorAttribute)))];
        mistake = session.IsAbstract ? $"{session.Name} is abstract: no session can be made of it"
            : all.Length == 0 ? $"{session.Name} has no public constructor"
            : all.Length > 1 && marked.Length != 1 ? $"{session.Name} has {all.Length} public "
                + $"constructors: leave one, or mark the one to use with [ActivatorUtilitiesConstructor]"
            : "";
        return mistake.Length > 0 ? null : marked is [var only] ? only : all[0];
    }

    // The last registration of a type is used.
    private static bool IsScoped(Type type, IServiceCollection registered)
    {
        Type? open = type.IsConstructedGenericType ? type.GetGenericTypeDefinition() : null;
        ServiceDescriptor? last = registered.LastOrDefault(d => !d.IsKeyedService
            && (d.ServiceType == type || d.ServiceType == open));
        return last?.Lifetime == ServiceLifetime.Scoped;
    }

    private static string NameOf(Type type) => type.IsConstructedGenericType
        ? $"{type.Name.Split('`')[0]}<{string.Join(", ", type.GetGenericArguments().Select(NameOf))}>"
        : type.Name;
}
