using System.Reflection;
using Microsoft.Extensions.Configuration;
using Microsoft.Extensions.DependencyInjection;
using Whimbrel.Http;

namespace Whimbrel.Hosting.Tests;

/// <summary>Each option of the code, by itself: a configuration that does not name it leaves it, and all others, as
/// they are.</summary>
public sealed class SectionTests
{
    // Addresses and TLS are read by rules of their own; the rest is given by the host if the code does not give it.
    private static readonly string[] s_byRule = ["Address", "EndPoint", "EndPoints", "Tls", "Engine", "Services",
        "OnDiagnosticEvent", "Upgrade"];

    private static readonly HttpLog s_log = new(Stream.Null);

    public static TheoryData<Type, string> Groups => new()
    {
        { typeof(ServerOptions), "" },
        { typeof(ServerLimits), nameof(ServerOptions.Limits) },
        { typeof(ConnectionTimeouts), nameof(ServerOptions.Timeouts) },
        { typeof(ServerSocketOptions), nameof(ServerOptions.Socket) },
        { typeof(AcceptOptions), nameof(ServerOptions.Accept) },
        { typeof(HttpOptions), "Http" },
    };

    [Theory]
    [MemberData(nameof(Groups))]
    public void Each_option_of_the_code_is_kept_and_changes_no_other(Type type, string group)
    {
        object plain = Read(group, Activator.CreateInstance(type)!);
        const BindingFlags Public = BindingFlags.Public | BindingFlags.Instance;
        (PropertyInfo Property, object Value)[] all = [.. type.GetProperties(Public)
            .Where(static p => p.SetMethod is not null && !s_byRule.Contains(p.Name))
            .Select(p => (p, Another(p.PropertyType, p.GetValue(plain))))
            .Where(static o => o.Item2 is not null).Select(static o => (o.p, o.Item2!))];
        Assert.NotEmpty(all);
        foreach ((PropertyInfo property, object value) in all)
        {
            object code = Activator.CreateInstance(type)!;
            property.SetValue(code, value);
            object read = Read(group, code);
            foreach ((PropertyInfo other, _) in all)
            {
                Assert.True(Equals(other.GetValue(other == property ? code : plain), other.GetValue(read)),
                    $"{property.Name} = {value}: {other.Name} is {other.GetValue(read)}");
            }
        }
    }

    // A value that differs from the default, or null if there is none that can be compared.
    private static object? Another(Type type, object? value)
    {
        type = Nullable.GetUnderlyingType(type) ?? type;
        if (type == typeof(bool)) return value is not true;
        if (type == typeof(int)) return (int)(value ?? 0) + 1;
        if (type == typeof(long)) return (long)(value ?? 0L) + 1;
        if (type == typeof(TimeSpan)) return (TimeSpan)(value ?? TimeSpan.Zero) + TimeSpan.FromSeconds(1);
        if (type == typeof(string)) return $"{value}x";
        if (type == typeof(object)) return new object();
        if (type == typeof(HttpLog)) return s_log;
        return type.IsEnum ? Enum.GetValues(type).Cast<object>().First(v => !v.Equals(value)) : null;
    }

    private static object Read(string group, object code)
    {
        List<string> mistakes = [];
        SectionReader empty = new(new ConfigurationBuilder().Build().GetSection("Chat"), mistakes);
        if (code is HttpOptions http) return HttpSection.Read(empty, http);
        ServerOptions options = code as ServerOptions ?? new ServerOptions();
        if (group.Length > 0) typeof(ServerOptions).GetProperty(group)!.SetValue(options, code);
        typeof(ServerOptions).GetProperty(nameof(ServerOptions.Address))!.SetValue(options, "tcp://127.0.0.1:0");
        using ServiceProvider services = new ServiceCollection().BuildServiceProvider();
        ServerOptions read = ServerSection.Read(empty, options, null, services, ".", static _ => { });
        Assert.Empty(mistakes);
        return group.Length == 0 ? read : typeof(ServerOptions).GetProperty(group)!.GetValue(read)!;
    }
}
